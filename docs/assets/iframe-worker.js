// Browsers start no worker for a page that was opened as a file. There, the search runs in a hidden frame of the page.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage && this.onmessage({ data }));
      this.ready = new Promise((loaded) => {
        const script = inside.document.createElement("script");
        script.src = new URL(address, document.baseURI);
        script.onload = () => loaded(inside);
        script.onerror = (error) => this.onerror && this.onerror(error);
        inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then((inside) => inside.onmessage({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
