"use strict";
/* The page around the components: run groups, sections, themes. */
(() => {
  const { make, components, draw, redraw } = Coterie;
  const sections = new Map(); // group and component → element
  let pageData = null;
  let current = 0;

  Coterie.show = (newer) => {
    pageData = newer;
    current = Math.min(current, pageData.groups.length - 1);
    updateGroupChoice();
    const group = pageData.groups[current];
    document.getElementById("title").textContent = group.title;
    showOrigin(group.views.summary?.origin ?? []);
    const main = document.getElementById("figures");
    for (const [name, component] of components) {
      if (!group.views[name]) continue;
      const body = section(main, name, component);
      const isNew = body.coterieData !== group.views[name] || !body.coteriePanel;
      if (body.coterieSeen && isNew) draw(name, body, group.views[name]);
    }
  };

  /* Draw a figure when it is nearly in view, and from then on with all newer data. */
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
    draw(body.dataset.view, body, pageData.groups[current].views[body.dataset.view]);
  }

  /* Show when the runs were started, and by which command. */
  function showOrigin(lines) {
    document.getElementById("origin").replaceChildren(
      ...lines.map(({ text, command }) => {
        const code = command ? [" ", make("code", { text: command })] : [];
        return make("p", {}, [text, ...code]);
      }),
    );
  }

  /* Print every figure, also those that were not in view yet, in light colours and at the width of
   * the paper. style.css sets this width before the browser lays out the page for print. */
  function prepareForPrint() {
    const root = document.documentElement;
    let theme = null;
    window.addEventListener("beforeprint", () => {
      theme ??= root.dataset.theme;
      root.dataset.theme = "light";
      root.classList.add("printing");
      if (pageData) for (const body of sections.values()) drawNow(body);
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

  function updateGroupChoice() {
    const select = document.getElementById("group");
    select.parentNode.hidden = pageData.groups.length < 2;
    if (select.options.length !== pageData.groups.length) {
      select.replaceChildren(
        ...pageData.groups.map(({ title }, place) =>
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
      Coterie.show(pageData);
    };
  }

  function setUpThemes() {
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

  setUpThemes();
  prepareForPrint();
  const embedded = document.getElementById("page-data");
  if (embedded) Coterie.show(JSON.parse(embedded.textContent));
})();
