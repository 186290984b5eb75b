// Charts in groups by prefix: which cards there are, which are drawn, and what they do together.

import { Card } from "./card.js";
import { GROUPS, TITLES, byImportance, groupOf } from "./names.js";

const SLICE_MS = 24;

export class Charts {
  /** `sourceOf(key)` gives what a card shows; `csv(key)` the address of its points. */
  constructor(root, view, { sourceOf, csv }) {
    Object.assign(this, { root, view, sourceOf, csv });
    this.cards = new Map();
    this.groups = new Map();
    this.actions = {
      menu: (card, button) => this.openMenu(card, button),
      hover: (x) => this.hover(x),
      zoom: (range) => this.zoom(range),
    };
    this.near = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "60px 0px" });
    new MutationObserver(() => this.drawAll()).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
    this.none = document.createElement("p");
    this.none.className = "soft";
    this.none.textContent = "No metric matches.";
    this.none.hidden = true;
    root.after(this.none);
  }

  seen(entries) {
    for (const entry of entries) {
      const card = this.cards.get(entry.target.dataset.key);
      if (entry.isIntersecting) card.mount();
      else card.unmount();
    }
    this.drawAll();
  }

  /** New points of these metrics have come. */
  update(keys) {
    const fresh = keys instanceof Set ? [...keys] : keys;
    const added = fresh.filter((key) => !this.cards.has(key));
    for (const key of added) this.addCard(key);
    if (added.length) this.filter();
    for (const key of fresh) this.cards.get(key).label();
    this.drawAll();
  }

  /** Draw what is stale, in the order of the page and a few milliseconds a frame: the page answers meanwhile. */
  drawAll() {
    if (this.frame || document.hidden) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const until = performance.now() + SLICE_MS;
      for (const element of document.querySelectorAll(".chart[data-key]")) {
        const card = this.cards.get(element.dataset.key);
        if (!card?.stale) continue;
        card.draw();
        if (performance.now() > until) {
          this.drawAll();
          return;
        }
      }
    });
  }

  /** The toolbar changed. */
  viewChanged() {
    this.filter();
    for (const card of this.cards.values()) if (card.mounted) card.source.want?.();
    this.drawAll();
  }

  filter() {
    const { matches } = this.view;
    let shown = 0;
    for (const grid of this.groups.values()) {
      let here = 0;
      for (const element of grid.children) {
        element.hidden = !matches(element.dataset.key);
        here += element.hidden ? 0 : 1;
      }
      grid.parentElement.hidden = here === 0;
      shown += here;
    }
    this.none.hidden = shown > 0 || this.cards.size === 0;
  }

  /** The metrics that are not filtered away. */
  get shown() {
    return [...this.cards.keys()].filter(this.view.matches);
  }

  hover(x) {
    this.at = x;
    if (this.pointing) return;
    this.pointing = requestAnimationFrame(() => {
      this.pointing = 0;
      for (const card of this.cards.values()) if (card.mounted) card.point(this.at);
    });
  }

  zoom(range) {
    this.view.zoom = range;
    this.view.save();
    this.drawAll();
  }

  addCard(key) {
    const card = new Card(this.sourceOf(key), this.view, this.actions);
    this.cards.set(key, card);
    const name = groupOf(key);
    if (!this.groups.has(name)) this.addGroup(name);
    const grid = this.groups.get(name);
    const after = [...grid.children].find((other) => byImportance(key, other.dataset.key) < 0);
    grid.insertBefore(card.element, after ?? null);
    this.near.observe(card.element);
  }

  addGroup(name) {
    const section = document.createElement("details");
    section.className = "chart-group";
    section.dataset.group = name;
    section.open = true;
    const title = document.createElement("summary");
    const heading = document.createElement("h3");
    heading.textContent = TITLES[name];
    title.append(heading);
    const grid = document.createElement("div");
    grid.className = "chart-grid";
    section.append(title, grid);
    const order = [...GROUPS, "other"];
    const after = [...this.root.children].find((other) => order.indexOf(other.dataset.group) > order.indexOf(name));
    this.root.insertBefore(section, after ?? null);
    this.groups.set(name, grid);
  }

  // -- What one card can do: made when it is asked for, there may be hundreds of cards.

  openMenu(card, button) {
    const open = this.menu?.isConnected && this.menu.parentElement === button.parentElement;
    this.closeMenu();
    if (open) return;
    const menu = document.createElement("div");
    menu.className = "dropdown-menu show chart-menu";
    menu.setAttribute("role", "menu");
    const item = (tag, text, act) => {
      const element = document.createElement(tag);
      element.className = "dropdown-item";
      element.setAttribute("role", "menuitem");
      element.textContent = text;
      element.addEventListener("click", () => {
        this.closeMenu();
        act?.();
      });
      menu.append(element);
      return element;
    };
    const large = card.element.closest("dialog");
    item("button", large ? "Back to the page" : "Full screen", () => (large ? large.close() : this.enlarge(card, button))).type = "button";
    item("a", "Points as CSV").href = this.csv(card.key);
    for (const format of ["png", "svg"]) {
      item("button", `Picture as ${format.toUpperCase()}`, () => this.picture(card, format)).type = "button";
    }
    button.setAttribute("aria-expanded", "true");
    button.after(menu);
    this.menu = menu;
    this.menuButton = button;
    menu.firstChild.focus();
    menu.addEventListener("keydown", (event) => this.menuKey(event, menu, button));
    this.outside = (event) => {
      if (!menu.contains(event.target) && event.target !== button) this.closeMenu();
    };
    document.addEventListener("pointerdown", this.outside);
  }

  menuKey(event, menu, button) {
    const items = [...menu.children];
    const at = items.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) items[(at + step + items.length) % items.length].focus();
    else if (event.key === "Escape" || event.key === "Tab") {
      this.closeMenu();
      button.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  closeMenu() {
    if (!this.menu) return;
    this.menu.remove();
    this.menuButton.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", this.outside);
    this.menu = null;
  }

  enlarge(card, button) {
    const dialog = document.createElement("dialog");
    dialog.className = "chart-large";
    dialog.setAttribute("aria-label", card.key);
    const place = document.createComment("");
    card.element.replaceWith(place);
    dialog.append(card.element);
    document.body.append(dialog);
    dialog.addEventListener("close", () => {
      this.closeMenu();
      place.replaceWith(card.element);
      dialog.remove();
      this.drawAll();
      button.focus();
    });
    dialog.showModal();
    this.drawAll();
  }

  /** A picture says what it shows and stands on a ground of its own: it leaves the page. */
  async picture(card, format) {
    const { Plotly } = window;
    const style = getComputedStyle(document.documentElement);
    const many = card.lines.length > 1;
    const layout = {
      ...card.plot.layout, title: { text: card.key.replaceAll("<", "&lt;"), font: { size: 15 } }, height: 500, width: 900,
      margin: { l: 60, r: 20, t: 50, b: 40 }, paper_bgcolor: style.getPropertyValue("--surface").trim(),
      showlegend: many, legend: { orientation: "h" },
    };
    const data = card.plot.data.map((trace) => ({ ...trace, showlegend: many && trace.opacity !== 0.25 }));
    await Plotly.downloadImage({ data, layout }, {
      format, width: 900, height: 500, scale: format === "png" ? 2 : 1, filename: card.key.replaceAll(/[^\p{L}\p{N}._-]+/gu, "-"),
    });
  }
}
