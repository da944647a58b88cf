"use strict";
/* The inside of a figure: controls, legend, picture, text below, buttons to save it.
 *
 *   const panel = Coterie.panel(element);
 *   const strategy = panel.choice("strategy", "Strategy", ["dac", "random"], draw);   returns the index
 *   const at = panel.slider("time", "Rounds", ["1–10", "11–20"], draw);              returns the index
 *   panel.legend([{name, colour, dash}], draw);     panel.isHidden(name) returns what a click hid
 *   panel.plot(traces, layout, {alt, name});        Plotly; called again to redraw
 *   panel.setText("text below the picture");        or a list of nodes
 *
 * All of these may be called at every rendering. They create or update their element, and keep the
 * reader's choices. */
(() => {
  const { make, colour, plain } = Coterie;
  const PICTURE = { width: 960, height: 560 };
  const SQUARE = { width: 760, height: 680 };

  class Panel {
    constructor(element) {
      this.element = element;
      this.chosen = new Map();
      this.hiddenNames = new Set();
      this.timer = null;
      this.controls = make("div", { class: "controls" });
      this.legendList = make("ul", { class: "legend", hidden: true });
      this.picture = make("div", { class: "picture" });
      this.words = make("div", { class: "words" });
      this.status = make("span", { class: "status", role: "status" });
      this.savers = make("div", { class: "savers" }, [
        ...["svg", "png"].map((format) =>
          make("button", {
            type: "button",
            class: "save",
            "data-format": format,
            text: `Save ${format.toUpperCase()}`,
            click: () => this.save(format),
          }),
        ),
        this.status,
      ]);
      element.append(this.controls, this.legendList, this.picture, this.words, this.savers);
    }

    /* Show a select and return the index of the chosen option; `first` is chosen at the start.
     * `groups` replaces `options` by groups of options: [["heading", ["a", "b"]], …]. */
    choice(key, title, options, changed, { groups = null, first = 0 } = {}) {
      let select = this.chosen.get(key);
      if (!select) {
        select = make("select", {});
        this.chosen.set(key, select);
        select.label = make("label", { class: "control" }, [make("span", { text: title }), select]);
        this.controls.append(select.label);
      }
      select.onchange = () => changed();
      const wanted = JSON.stringify(groups || options);
      if (select.made !== wanted) {
        const before = select.selectedIndex;
        const listed = groups || [[null, options]];
        let place = 0;
        select.replaceChildren();
        for (const [heading, names] of listed) {
          const parts = names.map((text) => make("option", { value: String(place++), text }));
          if (heading === null) select.append(...parts);
          else select.append(make("optgroup", { label: heading }, parts));
        }
        select.made = wanted;
        select.selectedIndex = before >= 0 && before < place ? before : Math.max(0, first);
      }
      select.label.hidden = select.options.length < 2;
      return Math.max(0, select.selectedIndex);
    }

    check(key, title, changed, isShown = true) {
      let box = this.chosen.get(key);
      if (!box) {
        box = make("input", { type: "checkbox" });
        this.chosen.set(key, box);
        box.label = make("label", { class: "control check" }, [box, make("span", { text: title })]);
        this.controls.append(box.label);
      }
      box.onchange = () => changed();
      box.label.hidden = !isShown;
      return isShown && box.checked;
    }

    /* Show a slider over times with a play button; it stays at the end until the reader moves it. */
    slider(key, title, names, changed, milliseconds = 600) {
      let slider = this.chosen.get(key);
      if (!slider) {
        slider = make("input", { type: "range", min: "0", step: "1", "aria-label": title });
        slider.play = make("button", { type: "button", class: "play" });
        slider.text = make("output", { class: "time" });
        slider.row = make("div", { class: "control time" }, [slider.play, slider, slider.text]);
        this.chosen.set(key, slider);
        this.controls.append(slider.row);
        slider.atEnd = true;
        this.showPlaying(slider, false);
      }
      slider.max = String(Math.max(0, names.length - 1));
      if (slider.atEnd || Number(slider.value) >= names.length) slider.value = slider.max;
      const place = Number(slider.value);
      slider.oninput = () => {
        this.stop(slider);
        slider.atEnd = slider.value === slider.max;
        changed();
      };
      slider.play.onclick = () => {
        if (this.timer) return this.stop(slider);
        slider.atEnd = false;
        if (slider.value === slider.max) slider.value = "0";
        this.showPlaying(slider, true);
        changed();
        this.timer = setInterval(() => {
          if (!this.element.isConnected || slider.value === slider.max) return this.stop(slider);
          slider.value = String(Number(slider.value) + 1);
          changed();
        }, milliseconds);
      };
      slider.row.hidden = names.length < 2;
      slider.text.textContent = names[place] ?? "";
      slider.setAttribute("aria-valuetext", `${title} ${names[place] ?? ""}`);
      return place;
    }

    showPlaying(slider, playing) {
      slider.play.textContent = playing ? "❚❚ Pause" : "▶ Play";
      slider.play.setAttribute("aria-label", playing ? "Pause" : "Play over time");
      slider.play.setAttribute("aria-pressed", String(playing));
    }

    stop(slider) {
      clearInterval(this.timer);
      this.timer = null;
      if (slider) this.showPlaying(slider, false);
    }

    /* Explain the colours; a click hides or shows an entry. Without `changed`, clicks do nothing. */
    legend(entries, changed = null) {
      this.entries = entries;
      this.legendList.hidden = !entries.length;
      this.legendList.replaceChildren(
        ...entries.map((entry) => {
          const swatch = make("span", { class: `swatch ${entry.shape || "line"}` });
          swatch.style.setProperty("--swatch", entry.colour);
          if (entry.dash && entry.dash !== "solid") swatch.classList.add("dashed");
          const name = make("span", { text: entry.name });
          if (!changed) return make("li", {}, [swatch, name]);
          const button = make("button", { type: "button" }, [swatch, name]);
          button.setAttribute("aria-pressed", String(!this.hiddenNames.has(entry.name)));
          button.title = "Show or hide";
          button.onclick = () => {
            if (!this.hiddenNames.delete(entry.name)) this.hiddenNames.add(entry.name);
            changed();
          };
          return make("li", {}, [button]);
        }),
      );
    }

    isHidden(name) {
      return this.hiddenNames.has(name);
    }

    plot(traces, layout, { alt, name, height = 380, square = false }) {
      this.vector = null;
      this.picture.classList.toggle("square", square);
      const width = this.picture.clientWidth || 600;
      const full = merged(style(width), { height, ...layout });
      // In print the window has another width than the paper, so the width must be set.
      const onPaper = document.documentElement.classList.contains("printing");
      if (onPaper) full.width = width;
      else if (this.wasOnPaper) Plotly.purge(this.picture);
      this.wasOnPaper = onPaper;
      this.saved = { traces, layout, name, height, square };
      describe(this.picture, alt);
      Plotly.react(this.picture, traces, full, {
        displayModeBar: false,
        responsive: true,
        scrollZoom: false,
        doubleClick: "reset",
        showTips: false,
      });
    }

    /* Show an SVG element instead of a plot. */
    drawing(svg, { alt, name }) {
      this.vector = svg;
      this.saved = { name };
      describe(this.picture, alt);
      if (svg.parentNode !== this.picture) this.picture.replaceChildren(svg);
    }

    setText(words) {
      const parts = typeof words === "string" ? [make("p", { text: words })] : words;
      this.words.replaceChildren(...parts);
    }

    async save(format) {
      const { name, traces, layout, square } = this.saved;
      let url;
      if (this.vector) {
        url = await Coterie.drawingUrl(this.vector, this.entries || [], format);
      } else {
        const size = square ? SQUARE : PICTURE;
        const figure = merged(style(size.width), { ...layout, ...size, ...legendInside(this) });
        figure.margin = { ...figure.margin, r: 40, t: 48 };
        url = await Plotly.toImage(
          { data: [...traces, ...keys(this)], layout: figure },
          { format, ...size, scale: format === "png" ? 2 : 1 },
        );
      }
      download(url, `${name}.${format}`);
      this.status.textContent = `Saved as ${name}.${format}`;
    }

    purge() {
      this.stop(null);
      if (window.Plotly && this.picture._fullLayout) Plotly.purge(this.picture);
    }
  }

  function describe(picture, alt) {
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", alt);
  }

  /* A saved picture contains the legend, which the page shows beside it. */
  function legendInside(panel) {
    return panel.entries?.length
      ? { showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 } }
      : {};
  }

  function keys(panel) {
    return (panel.entries || [])
      .filter((entry) => !panel.isHidden(entry.name))
      .map((entry) => ({
        x: [null],
        y: [null],
        name: plain(entry.name),
        showlegend: true,
        mode: entry.shape && entry.shape !== "line" ? "markers" : "lines",
        line: { color: entry.colour, width: 3, dash: entry.dash },
        marker: {
          color: entry.colour,
          size: 12,
          symbol: entry.shape === "dot" ? "circle" : "square",
        },
      }));
  }

  function download(url, name) {
    const link = make("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
  }

  /* Return the layout of all plots, in the colours of the theme. */
  function style(width) {
    const axis = {
      gridcolor: colour("grid"),
      linecolor: colour("grid"),
      zerolinecolor: colour("grid"),
      automargin: true,
      fixedrange: true,
      title: { standoff: 8 },
    };
    return {
      font: { family: "system-ui, sans-serif", size: width < 500 ? 12 : 13, color: colour("ink") },
      paper_bgcolor: colour("card"),
      plot_bgcolor: colour("card"),
      margin: { l: 48, r: 12, t: 12, b: 44 },
      hoverlabel: { font: { family: "system-ui, sans-serif" } },
      showlegend: false,
      dragmode: false,
      xaxis: axis,
      yaxis: axis,
    };
  }

  function merged(base, more) {
    const out = { ...base };
    for (const [key, value] of Object.entries(more)) {
      const both = isObject(value) && isObject(out[key]);
      out[key] = both ? merged(out[key], value) : value;
    }
    return out;
  }

  function isObject(value) {
    return value !== null && typeof value === "object" && !Array.isArray(value);
  }

  Coterie.panel = (element) => {
    element.coteriePanel ??= new Panel(element);
    return element.coteriePanel;
  };
})();
