"use strict";
// Draws the interface from its own description.
window.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
