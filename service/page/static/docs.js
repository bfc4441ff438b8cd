"use strict";
// Draws the interface from its own description.
const service = new URL(".", document.baseURI);
window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  // The description names no server: Swagger UI takes the root of the host, where a proxy may have
  // something else.
  requestInterceptor(request) {
    const { pathname, search } = new URL(request.url, service);
    if (!request.loadSpec) request.url = new URL(pathname.slice(1) + search, service).href;
    return request;
  },
});
