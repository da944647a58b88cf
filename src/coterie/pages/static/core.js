"use strict";
/* Coterie's components: what shows the data of one view in one element.
 *
 * A component is registered by its name, which is also the name of its view in the data:
 *
 *   Coterie.component("curves", {
 *     title: "How well peers do",            heading, plain language
 *     explain: "How to read it.",            one or two sentences below the heading
 *     render(element, data) { … },           shows the data; may be called again, with newer data
 *   });
 *
 * `render` starts with `Coterie.panel(element)`, which makes the inside of the element once and
 * finds it again later, so that the reader's choices survive newer data. Data that are only
 * {missing: "why"} are shown as that text and never reach the component.
 *
 * A page, or the live view, calls
 *
 *   Coterie.show(story)          everything; again whenever there is a newer story
 *   Coterie.draw(name, element, data)   one component in an element of your own
 *
 * where story is {subjects: [{title, views: {NAME: data}}]}. Texts from runs are hostile: they only
 * ever reach the page as textContent, or as Plotly labels through Coterie.plain. */
const Coterie = (() => {
  const components = new Map();
  const drawn = new Map(); // element → [name, data], to draw anew in the other theme

  function component(name, parts) {
    components.set(name, { name, ...parts });
  }

  function draw(name, element, data) {
    drawn.set(element, [name, data]);
    element.coterieData = data;
    const panel = element.coteriePanel;
    if (data.missing) {
      if (panel) panel.purge();
      element.coteriePanel = undefined;
      element.replaceChildren(make("p", { class: "missing", text: data.missing }));
      return;
    }
    if (!panel) element.replaceChildren();
    components.get(name).render(element, data);
  }

  function redraw() {
    for (const [element, [name, data]] of drawn) {
      if (element.isConnected) draw(name, element, data);
      else drawn.delete(element);
    }
  }

  /* Make an element; `text` becomes its textContent, functions become listeners. */
  function make(tag, attributes = {}, children = []) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === undefined || value === null || value === false) continue;
      if (key === "text") element.textContent = value;
      else if (typeof value === "function") element.addEventListener(key, value);
      else element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }

  /* Plotly reads a little HTML in its texts; what comes from runs must not be read so. */
  function plain(text) {
    return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  }

  /* Arrays that views.base.packed made: {type, shape, base64}. */
  function unpack(packed) {
    const text = atob(packed.base64);
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    if (packed.type === "uint8") return bytes;
    const view = new DataView(bytes.buffer);
    return Uint16Array.from({ length: bytes.length / 2 }, (_, n) => view.getUint16(2 * n, true));
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  function faded(hex, opacity) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${red},${green},${blue},${opacity})`;
  }

  function written(value, digits = 1) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    return value.toFixed(digits).replace("-", "−");
  }

  /* Numbers of any size, in about three digits. */
  function short(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    return size >= 100 || size === 0 ? value.toFixed(0) : value.toPrecision(size >= 1 ? 3 : 2);
  }

  /* A table of texts; the first cell of each row names it, `best` is the row to stress. */
  function table(head, rows, { caption, best } = {}) {
    const cells = (texts) =>
      texts.map((text, n) => make(n ? "td" : "th", n ? { text } : { scope: "row", text }));
    const inside = make("table", {}, [
      make("thead", {}, [
        make(
          "tr",
          {},
          head.map((text) => make("th", { scope: "col", text })),
        ),
      ]),
      make(
        "tbody",
        {},
        rows.map((texts, n) => make("tr", { class: n === best && "best" }, cells(texts))),
      ),
    ]);
    const about = {
      class: "scroll",
      tabindex: "0",
      role: "region",
      "aria-label": caption || head[0],
    };
    const above = caption ? [make("p", { class: "explain", text: caption })] : [];
    return make("div", {}, [...above, make("div", about, [inside])]);
  }

  return {
    component,
    components,
    draw,
    redraw,
    make,
    plain,
    unpack,
    colour,
    faded,
    written,
    short,
    table,
  };
})();
