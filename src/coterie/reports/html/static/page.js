"use strict";
/* The page around the components: subjects, sections, themes. */
(() => {
  const { make, components, draw, redraw } = Coterie;
  const sections = new Map(); // subject and component → element
  let story = null;
  let current = 0;

  Coterie.show = (newer) => {
    story = newer;
    current = Math.min(current, story.subjects.length - 1);
    chooser();
    const subject = story.subjects[current];
    document.getElementById("title").textContent = subject.title;
    origin(subject.views.summary?.origin ?? []);
    const main = document.getElementById("figures");
    for (const [name, component] of components) {
      if (!subject.views[name]) continue;
      const body = section(main, name, component);
      const isNew = body.coterieData !== subject.views[name] || !body.coteriePanel;
      if (body.coterieSeen && isNew) draw(name, body, subject.views[name]);
    }
  };

  /* A figure is drawn when it is about to be seen, and from then on always. */
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) drawNow(target);
      }
    },
    { rootMargin: "600px" },
  );

  function drawNow(body) {
    seen.unobserve(body);
    body.coterieSeen = true;
    draw(body.dataset.view, body, story.subjects[current].views[body.dataset.view]);
  }

  /* When the runs were started, and by which command. */
  function origin(lines) {
    document.getElementById("origin").replaceChildren(
      ...lines.map(({ text, command }) => {
        const code = command ? [" ", make("code", { text: command })] : [];
        return make("p", {}, [text, ...code]);
      }),
    );
  }

  /* Paper has every figure, also those that were not scrolled to, in its own width and in light
   * colours. The width is known before the browser lays out the page for paper: see style.css. */
  function paper() {
    const root = document.documentElement;
    let theme = null;
    window.addEventListener("beforeprint", () => {
      theme ??= root.dataset.theme;
      root.dataset.theme = "light";
      root.classList.add("printing");
      if (story) for (const body of sections.values()) drawNow(body);
      Coterie.fitOnPaper();
    });
    window.addEventListener("afterprint", () => {
      root.classList.remove("printing");
      root.dataset.theme = theme ?? root.dataset.theme;
      theme = null;
      redraw();
    });
  }

  function section(main, name, component) {
    if (sections.has(name)) return sections.get(name);
    const body = make("div", { class: "figure", "data-view": name });
    const heading = make("h2", { id: `about-${name}`, text: component.title });
    const parts = [heading, make("p", { class: "explain", text: component.explain || "" }), body];
    main.append(make("section", { id: name, "aria-labelledby": heading.id }, parts));
    document
      .getElementById("contents")
      .append(
        make("li", {}, [make("a", { href: `#${name}`, text: component.short || component.title })]),
      );
    sections.set(name, body);
    seen.observe(body);
    return body;
  }

  function chooser() {
    const select = document.getElementById("subject");
    select.parentNode.hidden = story.subjects.length < 2;
    if (select.options.length !== story.subjects.length) {
      select.replaceChildren(
        ...story.subjects.map(({ title }, place) =>
          make("option", { value: String(place), text: title }),
        ),
      );
    }
    select.selectedIndex = current;
    select.onchange = () => {
      current = select.selectedIndex;
      for (const body of sections.values()) {
        body.coteriePanel?.purge();
        body.coteriePanel = undefined;
      }
      Coterie.show(story);
    };
  }

  function themes() {
    const root = document.documentElement;
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const button = document.getElementById("theme");
    const set = (name) => {
      root.dataset.theme = name;
      button.textContent = name === "dark" ? "Light colours" : "Dark colours";
      redraw();
    };
    button.onclick = () => set(root.dataset.theme === "dark" ? "light" : "dark");
    dark.addEventListener("change", () => set(dark.matches ? "dark" : "light"));
    set(dark.matches ? "dark" : "light");
  }

  themes();
  paper();
  const embedded = document.getElementById("story");
  if (embedded) Coterie.show(JSON.parse(embedded.textContent));
})();
