/* Browsers start no worker for a page opened from a folder. A hidden frame runs the search there instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      const run = (url) =>
        new Promise((resolve, reject) => {
          const script = inner.document.createElement("script");
          script.src = url;
          script.onload = resolve;
          script.onerror = reject;
          inner.document.body.append(script);
        });
      inner.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => run(url)), Promise.resolve());
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = run(address);
    }
    postMessage(data) {
      const inner = this.frame.contentWindow;
      this.ready.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
