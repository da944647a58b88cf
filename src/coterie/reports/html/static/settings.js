"use strict";
Coterie.component("settings", {
  title: "Settings",
  explain: "What was run. Click a strategy to see all its settings.",
  render(element, data) {
    const { make } = Coterie;
    const open = new Set(
      [...element.querySelectorAll("details[open]")].map((each) => each.dataset.label),
    );
    const facts = data.facts.flatMap(([name, value]) => [
      make("dt", { text: name }),
      make("dd", { text: value }),
    ]);
    const strategies = data.strategies.map(({ label, about, yaml }) =>
      make("details", { "data-label": label, open: open.has(label) }, [
        make("summary", { text: about ? `${label}: ${about}` : label }),
        make("pre", {
          text: yaml,
          tabindex: "0",
          role: "region",
          "aria-label": `Settings of ${label}`,
        }),
      ]),
    );
    element.replaceChildren(make("dl", {}, facts), ...strategies);
  },
});
