// What every page has: menus, themes, relative times, busy buttons, dialogs, copying, errors of partial loads.
(() => {
  "use strict";
  const tuneyard = window.tuneyard;

  // -- Time: always by the server's clock, which this browser's may differ from by days.
  const served = document.querySelector('meta[name="server-now"]');
  const offset = served ? Date.parse(served.content) - Date.now() : 0;
  tuneyard.now = () => Date.now() + offset;

  tuneyard.relative = (then) => {
    const seconds = (tuneyard.now() - then) / 1000;
    const away = Math.abs(seconds);
    if (away < 45) return seconds >= 0 ? "just now" : "in a moment";
    for (const [limit, unit, divisor] of [[3600, "min", 60], [86400, "h", 3600], [2419200, "d", 86400]]) {
      if (away < limit - divisor / 2) {
        const count = Math.max(1, Math.round(away / divisor));
        return seconds >= 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`;
      }
    }
    return new Date(then).toISOString().slice(0, 10);
  };

  function refreshTimes() {
    for (const element of document.querySelectorAll("time[data-relative]")) {
      const text = tuneyard.relative(Date.parse(element.dateTime));
      if (element.textContent !== text) element.textContent = text;
    }
  }
  setInterval(refreshTimes, 20000);
  document.addEventListener("htmx:afterSwap", refreshTimes);

  tuneyard.duration = (seconds) => {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
    if (seconds < 9.95) return `${Math.max(0, seconds).toFixed(1)}s`;
    const total = Math.round(seconds);
    const pad = (value) => String(value).padStart(2, "0");
    const [d, h, m, s] = [Math.floor(total / 86400), Math.floor(total / 3600) % 24, Math.floor(total / 60) % 60, total % 60];
    if (d) return `${d}d ${pad(h)}h ${pad(m)}m`;
    if (h) return `${h}h ${pad(m)}m ${pad(s)}s`;
    return m ? `${m}m ${pad(s)}s` : `${s}s`;
  };

  // -- The tab: a dot in the state's colour.
  tuneyard.setTab = (title, tone) => {
    document.title = `${title} · Tuneyard`;
    const link = document.querySelector('link[rel="icon"]');
    const colour = getComputedStyle(document.documentElement).getPropertyValue(`--${tone}`).trim();
    if (!link || !colour) return;
    link.href = "data:image/svg+xml," + encodeURIComponent(
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="12" fill="${colour}"/></svg>`);
  };

  // -- Saying something without leaving the page.
  tuneyard.icon = (name) => {
    const any = document.querySelector("svg.icon use");
    const sprite = any ? any.getAttribute("href").split("#")[0] : "";
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "icon");
    svg.setAttribute("aria-hidden", "true");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", `${sprite}#${name}`);
    svg.append(use);
    return svg;
  };

  tuneyard.notify = (text, tone = "failed") => {
    const place = document.getElementById("notices");
    if (!place) return;
    const notice = document.createElement("div");
    notice.className = `notice tone-${tone}`;
    const body = document.createElement("div");
    const line = document.createElement("p");
    line.textContent = text;
    body.append(line);
    notice.append(tuneyard.icon(tone === "succeeded" ? "check-circle" : "warning"), body);
    place.replaceChildren(notice);
    notice.scrollIntoView({ block: "nearest" });
  };

  // -- Requests of our own scripts.
  tuneyard.csrf = () => {
    try {
      return JSON.parse(document.body.getAttribute("hx-headers") || "{}")["X-CSRFToken"] || "";
    } catch {
      return "";
    }
  };

  // -- Rail
  document.addEventListener("click", (event) => {
    const toggle = event.target.closest("[data-rail-toggle]");
    if (!toggle) return;
    const frame = document.querySelector(".frame");
    frame.dataset.rail = frame.dataset.rail === "closed" ? "open" : "closed";
    document.cookie = `tuneyard_rail=${frame.dataset.rail}; path=/; max-age=31536000; samesite=lax`;
    window.dispatchEvent(new Event("resize"));
  });

  // -- Theme: at once, then remembered.
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-theme-form]");
    if (!form || !event.submitter) return;
    event.preventDefault();
    const theme = event.submitter.value;
    document.documentElement.dataset.theme = theme;
    tuneyard.applyTheme();
    for (const button of form.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.value === theme));
    }
    const use = form.parentElement.querySelector("[data-bs-toggle] use");
    if (use) use.setAttribute("href", use.getAttribute("href").replace(/#.*/, `#${theme}`));
    const body = new FormData(form);
    body.set("theme", theme);
    fetch(form.action, { method: "POST", body, headers: { "X-Requested-With": "fetch" } }).catch(() => {
      tuneyard.notify("The choice of colours could not be saved; it holds for this page only.");
    });
    document.dispatchEvent(new CustomEvent("tuneyard:theme"));
  });

  // -- A button that was pressed is busy at once, and cannot be pressed twice.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method === "dialog" || form.matches("[data-theme-form], [data-download]")) return;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "1";
    const button = event.submitter;
    if (button) button.setAttribute("aria-busy", "true");
  });

  function release(form) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll('[aria-busy="true"]')) button.removeAttribute("aria-busy");
  }
  tuneyard.release = release;
  window.addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach(release));
  document.addEventListener("htmx:afterRequest", (event) => {
    const form = event.target.closest("form");
    if (form) release(form);
  });

  // -- Dialogs: data-dialog="id" opens, data-dialog-close closes.
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) document.getElementById(opener.dataset.dialog)?.showModal();
    const closer = event.target.closest("[data-dialog-close]");
    if (closer) closer.closest("dialog").close();
  });

  // -- Copying
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.value ?? source.textContent);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      return;
    }
    const label = button.querySelector("span");
    if (!label) return;
    const before = label.textContent;
    label.textContent = button.dataset.copied || "Copied";
    setTimeout(() => { label.textContent = before; }, 1500);
  });

  // -- Partial loads that fail say so.
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    if (status === 401 || status === 403) tuneyard.notify("You are signed out, or may not do this. Reload the page.");
    else if (status === 404) tuneyard.notify("This is no longer there. Reload the page.");
    else tuneyard.notify(`The server could not answer (${status}). Try again.`);
  });
  document.addEventListener("htmx:sendError", () => tuneyard.notify("The server does not answer. Check the network, then try again."));
})();
