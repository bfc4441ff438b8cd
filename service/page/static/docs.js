"use strict";
// Draws the interface from its own description.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();
const service = new URL(".", document.baseURI);
window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
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
