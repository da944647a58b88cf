"use strict";
/* Coterie's components: each shows the data of one view in one element.
 *
 * A component is registered by its name, which is also the name of its view in the data:
 *
 *   Coterie.component("curves", {
 *     title: "How well peers do",            heading, plain language
 *     explain: "How to read it.",            one or two sentences below the heading
 *     render(element, data) { … },           show the data; called again with newer data
 *   });
 *
 * `render` starts with `Coterie.panel(element)`. It creates the panel at the first call and returns
 * the same one later, so newer data keep the reader's choices. For data that are {missing: "why"},
 * this text is shown and the component is not called.
 *
 * A page, or the live view, calls
 *
 *   Coterie.show(pageData)              show everything; called again with newer data
 *   Coterie.draw(name, element, data)   show one component in an element
 *
 * where pageData is {groups: [{title, views: {NAME: data}}]}. Texts from runs may be hostile: they
 * reach the page only as textContent, or as Plotly labels through Coterie.plain. */
const Coterie = (() => {
  const MIN_FONT_SIZE = 7; // font size on paper, in pixels
  const components = new Map();
  const drawn = new Map(); // element → [name, data], to redraw in the other theme

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

  /* Escape text for Plotly, which interprets some HTML. */
  function plain(text) {
    return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  }

  /* Return the values of an array that pack_array in view_parts.py packed. */
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

  function fade(hex, opacity) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${red},${green},${blue},${opacity})`;
  }

  function write(value, digits = 1) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    return value.toFixed(digits).replace("-", "−");
  }

  /* Write a number of any size in about three digits. */
  function writeShort(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    return size >= 100 || size === 0 ? value.toFixed(0) : value.toPrecision(size >= 1 ? 3 : 2);
  }

  /* Return a table of texts. The first cell of each row is its name, `best` is the bold row, `marks`
   * are small texts below the names, and `label` describes a table without a caption. */
  function table(head, rows, { caption, label, best, marks = [] } = {}) {
    const cells = (texts, n) =>
      texts.map((text, column) => (column ? make("td", { text }) : rowHead(text, marks[n])));
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
        rows.map((texts, n) => make("tr", { class: n === best && "best" }, cells(texts, n))),
      ),
    ]);
    const above = caption ? [make("p", { class: "explain", text: caption })] : [];
    return make("div", {}, [...above, sideways(inside, label || caption || head[0])]);
  }

  function rowHead(text, mark) {
    const below = mark ? [make("small", { class: "mark", text: mark })] : [];
    return make("th", { scope: "row" }, [make("span", { text }), " ", ...below]);
  }

  /* Wrap an element that may be wider than the screen: it scrolls, also by keyboard, with a hint. */
  function sideways(inside, label) {
    const box = make("div", { class: "scroll", scroll: (event) => atEdge(event.target) }, [inside]);
    box.coterieLabel = label;
    const text = "Scroll sideways to see all of it →";
    const hint = make("p", { class: "hint", hidden: true, text });
    widths.observe(box);
    widths.observe(inside);
    return make("div", { class: "sideways" }, [hint, make("div", { class: "edge" }, [box])]);
  }

  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) fit(target.closest(".scroll"));
  });

  function fit(box) {
    if (!box) return;
    const isWide = box.scrollWidth > box.clientWidth + 1;
    const label = `${box.coterieLabel}; scrolls sideways`;
    const about = { tabindex: "0", role: "region", "aria-label": label };
    for (const [name, value] of Object.entries(about)) {
      if (isWide) box.setAttribute(name, value);
      else box.removeAttribute(name);
    }
    const around = box.closest(".sideways");
    around.classList.toggle("wide", isWide);
    around.querySelector(".hint").hidden = !isWide;
    atEdge(box);
  }

  function atEdge(box) {
    const left = box.scrollWidth - box.clientWidth - box.scrollLeft;
    const around = box.closest(".sideways");
    around.classList.toggle("more", left > 1);
    around.classList.toggle("moved", box.scrollLeft > 1);
  }

  /* Paper does not scroll: reduce the font of wide tables, then let cells break. */
  function fitOnPaper() {
    for (const box of document.querySelectorAll(".scroll")) {
      const inside = box.firstElementChild;
      const share = box.clientWidth / inside.offsetWidth;
      if (share >= 1) continue;
      const size = parseFloat(getComputedStyle(inside).fontSize) * share;
      inside.style.fontSize = `${Math.max(MIN_FONT_SIZE, Math.floor(10 * size) / 10)}px`;
      inside.classList.toggle("broken", size < MIN_FONT_SIZE);
    }
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
    fade,
    write,
    writeShort,
    table,
    fitOnPaper,
  };
})();
