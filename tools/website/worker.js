// A page that was opened from disk may not start a worker, so the search runs in a hidden frame with a worker's interface.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const { contentWindow: scope, contentDocument: page } = this.frame;
      page.open();
      page.write("<body></body>");
      page.close();
      scope.postMessage = (data) => this.onmessage?.(new MessageEvent("message", { data }));
      const script = page.createElement("script");
      script.src = new URL(url, location.href);
      script.onerror = (event) => this.onerror?.(event);
      this.loaded = new Promise((resolve) => (script.onload = resolve));
      page.body.append(script);
    }
    async postMessage(data) {
      await this.loaded;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
