"use strict";
Coterie.component("summary", {
  title: "Summary",
  render(element, data) {
    const { make } = Coterie;
    const parts = data.sentences.map((text, place) =>
      make("p", { class: place < 2 ? "lead" : "", text }),
    );
    if (data.problems.length) {
      parts.unshift(
        make("div", { class: "notice", role: "note" }, [
          make("strong", { text: "Some data are missing" }),
          make(
            "ul",
            {},
            data.problems.map((text) => make("li", { text })),
          ),
        ]),
      );
    }
    const { head, rows, ...about } = data.table;
    element.replaceChildren(...parts, Coterie.table(head, rows, { label: "Results", ...about }));
  },
});
