"use strict";
// Draws the interface from its own description, under an example for a terminal.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();
const service = new URL(".", document.baseURI);
const body = JSON.stringify({ sentences: ["The plot drags, but the cast is superb."] });
document.getElementById("first").textContent = `curl ${service}predict -H 'Content-Type: application/json' -d '${body}'`;
// What Swagger UI draws has controls without names, and examples that no key can scroll.
new MutationObserver(() => {
  const improve = (selector, members) => {
    for (const each of document.querySelectorAll(`#docs ${selector}`)) Object.assign(each, members);
  };
  improve(":is(textarea, select)", { ariaLabel: "Example" });
  improve("pre", { tabIndex: 0 });
  for (const level of [3, 4, 5]) improve(`h${level}`, { ariaLevel: String(level - 1) });
  improve(".information-container", { role: "region", ariaLabel: "About" });
}).observe(document.getElementById("docs"), { childList: true, subtree: true });
window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
  validatorUrl: null,
  // The description names no server, so Swagger UI would ask the root of the host. Behind a proxy
  // that can be another service.
  requestInterceptor(request) {
    const { pathname, search } = new URL(request.url, service);
    if (!request.loadSpec) request.url = new URL(pathname.slice(1) + search, service).href;
    return request;
  },
});
