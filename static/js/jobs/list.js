// Ticking jobs in the list: kept in the URL, over filters, pages and the table's own refresh.

const table = () => document.getElementById("job-table");
const MOST = 200;
let picked = new Set((new URLSearchParams(location.search).get("pick") ?? "").split(",").filter(Boolean));

function keep() {
  const url = new URL(location.href);
  if (picked.size) url.searchParams.set("pick", [...picked].join(","));
  else url.searchParams.delete("pick");
  history.replaceState(history.state, "", url.href.replaceAll("%2C", ","));
}

function show() {
  for (const box of table().querySelectorAll('input[name="jobs"]')) box.checked = picked.has(box.value);
  const all = table().querySelector("[data-pick-all]");
  const boxes = [...table().querySelectorAll('input[name="jobs"]')];
  if (all) {
    all.checked = boxes.length > 0 && boxes.every((box) => box.checked);
    all.indeterminate = !all.checked && boxes.some((box) => box.checked);
  }
  const bar = document.getElementById("bulk-bar");
  bar.hidden = picked.size === 0;
  for (const count of bar.querySelectorAll("[data-count]")) count.textContent = String(picked.size);
  const ids = [...picked].join(",");
  for (const link of bar.querySelectorAll("a[data-address]")) link.href = `${link.dataset.address}jobs=${ids}`;
  bar.querySelector("[data-compare]").classList.toggle("disabled", picked.size < 2 || picked.size > 20);
}

document.addEventListener("change", (event) => {
  const { target } = event;
  if (target.matches("[data-pick-all]")) {
    for (const box of table().querySelectorAll('input[name="jobs"]')) pick(box.value, target.checked);
  } else if (target.matches('#job-table input[name="jobs"]')) {
    pick(target.value, target.checked);
  } else return;
  keep();
  show();
});

function pick(id, on) {
  if (on && picked.size < MOST) picked.add(id);
  else picked.delete(id);
}

document.getElementById("bulk-bar").querySelector("[data-pick-none]").addEventListener("click", () => {
  picked = new Set();
  keep();
  show();
});
document.body.addEventListener("htmx:afterSwap", show);
// Filters and pages are links: they take the ticks along.
document.addEventListener("click", (event) => {
  const link = event.target.closest("#job-table .chips a, #job-table .pages a");
  if (!link) return;
  const url = new URL(link.href);
  if (picked.size) url.searchParams.set("pick", [...picked].join(","));
  else url.searchParams.delete("pick");
  link.href = url.href;
});
show();
