"use strict";
/* SVG drawings without Plotly: make their parts, and save them as SVG or PNG. */
(() => {
  const SPACE = "http://www.w3.org/2000/svg";

  Coterie.svg = (tag, attributes = {}) => {
    const element = document.createElementNS(SPACE, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  /* Return a URL of the drawing with its legend above, in the colours of the theme. */
  Coterie.drawingUrl = async (drawing, entries, format) => {
    const { svg, colour } = Coterie;
    const [, , width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
    const top = 40 + 26 * Math.ceil(entries.length / 5);
    const whole = svg("svg", { xmlns: SPACE, width, height: height + top });
    whole.setAttribute("viewBox", `0 0 ${width} ${height + top}`);
    whole.setAttribute("font-family", "system-ui, sans-serif");
    whole.append(svg("rect", { width, height: height + top, fill: colour("card") }));
    entries.forEach((entry, place) => {
      const [x, y] = [20 + (place % 5) * (width / 5), 28 + 26 * Math.floor(place / 5)];
      const ring = entry.shape === "ring" && { stroke: entry.colour, "stroke-width": 3 };
      const fill = ring ? colour("card") : entry.colour;
      whole.append(svg("circle", { cx: x, cy: y, r: ring ? 6 : 7, fill, ...ring }));
      const text = svg("text", { x: x + 14, y: y + 5, "font-size": 16, fill: colour("ink") });
      text.textContent = entry.name;
      whole.append(text);
    });
    const inside = svg("g", { transform: `translate(0 ${top})` });
    inside.append(...[...drawing.childNodes].map((node) => node.cloneNode(true)));
    whole.append(inside);
    const text = new XMLSerializer().serializeToString(whole);
    const url = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    return format === "svg" ? url : asPng(url, width, height + top);
  };

  async function asPng(url, width, height) {
    const image = new Image();
    await new Promise((resolve, reject) => {
      image.onload = resolve;
      image.onerror = () => reject(new Error("The drawing could not be turned into a picture."));
      image.src = url;
    });
    const canvas = Coterie.make("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    return canvas.toDataURL("image/png");
  }
})();
