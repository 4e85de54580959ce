// A page that is opened as a file may start no worker, and so could not search. There an unseen frame
// does a worker's work: scripts may be loaded into it, and messages go to and fro as events.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const script = (source) =>
        new Promise((loaded, failed) => {
          const element = inside.document.createElement("script");
          element.src = source;
          element.onload = loaded;
          element.onerror = failed;
          inside.document.head.append(element);
        });
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      // One after another: each may need what the one before defines.
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => script(source)), Promise.resolve());
      this.inside = inside;
      this.ready = script(new URL(url, location.href).href);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
