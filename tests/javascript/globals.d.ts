// What the page of the interface loads before its own script.
interface Window {
  SwaggerUIBundle(options: object): void;
}
