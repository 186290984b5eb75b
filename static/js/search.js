// Search: ⌘K or Ctrl-K opens it, arrows choose, Enter goes there. Answers that come late are dropped.
(() => {
  "use strict";
  const dialog = document.getElementById("search");
  if (!dialog) return;
  const field = dialog.querySelector("input");
  const hits = dialog.querySelector('[role="listbox"]');
  let timer = 0;
  let asked = null;

  function open() {
    if (dialog.open) return;
    dialog.showModal();
    field.select();
    ask();
  }

  async function ask() {
    asked?.abort();
    asked = new AbortController();
    const address = new URL(dialog.dataset.url, location.href);
    address.searchParams.set("q", field.value);
    if (dialog.dataset.project) address.searchParams.set("in", dialog.dataset.project);
    try {
      const answer = await fetch(address, { signal: asked.signal, headers: { "X-Requested-With": "fetch" } });
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      hits.innerHTML = await answer.text();
      choose(0);
    } catch (error) {
      if (error.name === "AbortError") return;
      const line = document.createElement("p");
      line.className = "soft search-none";
      line.textContent = "The server does not answer. Check the network, or reload the page.";
      hits.replaceChildren(line);
    }
  }

  function choose(index) {
    const options = [...hits.querySelectorAll('[role="option"]')];
    if (!options.length) {
      field.removeAttribute("aria-activedescendant");
      return;
    }
    const at = (index + options.length) % options.length;
    options.forEach((option, place) => option.setAttribute("aria-selected", String(place === at)));
    field.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 120);
  });
  field.addEventListener("keydown", (event) => {
    const options = [...hits.querySelectorAll('[role="option"]')];
    const at = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown") choose(at + 1);
    else if (event.key === "ArrowUp") choose(at - 1);
    else if (event.key === "Enter" && options[at]) options[at].click();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-search]")) open();
    else if (event.target === dialog) dialog.close();
  });
})();
