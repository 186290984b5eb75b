// Uploading a file: drop, size, name, progress, stop; the answer is an address or what is wrong.
(() => {
  "use strict";
  const form = document.getElementById("upload");
  if (!form) return;
  const file = form.querySelector("input[type=file]");
  const name = form.querySelector("input[name=name]");
  const drop = form.querySelector("[data-drop]");
  const note = form.querySelector("[data-file-note]");
  const result = document.getElementById("upload-result");
  const progress = form.querySelector("[data-progress]");
  const bar = progress.querySelector(".progress-bar");
  const text = progress.querySelector("[data-progress-text]");
  const button = form.querySelector("button.btn-primary");
  const abort = form.querySelector("[data-abort]");
  const columns = form.querySelector("[data-columns]");
  const limit = Number(form.dataset.limit);
  const hint = note.textContent;
  let suggested = "";

  function size(bytes) {
    for (const unit of ["B", "kB", "MB", "GB"]) {
      if (bytes < 1000 || unit === "GB") return unit === "B" ? `${bytes} B` : `${bytes.toFixed(1)} ${unit}`;
      bytes /= 1000;
    }
    return "";
  }

  function complain(message) {
    const line = document.createElement("div");
    line.className = "error mb-3";
    line.setAttribute("role", "alert");
    const words = document.createElement("span");
    words.textContent = message;
    line.append(window.tuneyard.icon("warning"), words);
    result.replaceChildren(line);
  }

  function chosen() {
    const picked = file.files[0];
    result.replaceChildren();
    note.textContent = picked ? `${picked.name} · ${size(picked.size)}` : hint;
    if (!picked) return;
    if (picked.size > limit) complain(`The file has ${size(picked.size)}; this installation accepts at most ${form.dataset.limitText}.`);
    const stem = picked.name.replace(/\.[^.]+$/, "");
    if (!name.value || name.value === suggested) {
      suggested = stem.slice(0, 200);
      name.value = suggested;
    }
  }

  file.addEventListener("change", chosen);
  for (const type of ["dragenter", "dragover"]) {
    drop.addEventListener(type, (event) => {
      event.preventDefault();
      drop.classList.add("drop-over");
    });
  }
  for (const type of ["dragleave", "drop"]) drop.addEventListener(type, () => drop.classList.remove("drop-over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    file.files = event.dataTransfer.files;
    chosen();
  });
  // A file dropped beside the box must not replace the page.
  for (const type of ["dragover", "drop"]) window.addEventListener(type, (event) => event.preventDefault());

  function busy(on) {
    progress.hidden = abort.hidden = !on;
    button.disabled = on;
    if (on) button.setAttribute("aria-busy", "true");
    else button.removeAttribute("aria-busy");
  }

  function show(fraction, words) {
    bar.style.width = `${fraction * 100}%`;
    progress.querySelector(".progress").setAttribute("aria-valuenow", String(Math.round(fraction * 100)));
    text.textContent = words;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (button.disabled) return;
    if (!file.files.length) {
      complain("Choose a file.");
      file.focus();
      return;
    }
    if (file.files[0].size > limit) {
      chosen();
      return;
    }
    result.replaceChildren();
    busy(true);
    show(0, "");
    const request = new XMLHttpRequest();
    request.open("POST", form.action || location.href);
    request.setRequestHeader("X-Requested-With", "fetch");
    request.responseType = "json";
    request.upload.onprogress = (step) => {
      const done = step.loaded / step.total;
      show(done, done < 1 ? `${size(step.loaded)} of ${size(step.total)}` : text.dataset.checking);
    };
    request.onload = () => {
      const answer = request.response || {};
      if (request.status === 201 && answer.url) {
        location.assign(answer.url);
        return;
      }
      busy(false);
      if (request.status === 422 && answer.html) {
        result.innerHTML = answer.html;
        // The file was read: its columns can be picked where they are named.
        if (result.querySelector("#file-columns")) columns.open = true;
      }
      else if (request.status === 413) complain("The server does not accept a file this large.");
      else complain(`The server could not take the file (${request.status}). Try again.`);
      result.scrollIntoView({ block: "nearest" });
    };
    request.onerror = () => {
      busy(false);
      complain("The connection broke before the file was there. Try again.");
    };
    request.onabort = () => {
      busy(false);
      complain("Stopped; nothing was stored.");
    };
    abort.onclick = () => request.abort();
    request.send(new FormData(form));
  });
})();
