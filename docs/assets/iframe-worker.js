// The search of the site runs in a worker, which browsers refuse to pages that are opened as files. Here it runs in a
// hidden frame instead. The theme looks for the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<!doctype html>"
      this.started = new Promise(resolve => { frame.onload = () => resolve(this.start(frame, url)) })
      document.body.append(frame)
    }

    start(frame, url) {
      const inside = frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      return new Promise(resolve => {
        const script = frame.contentDocument.createElement("script")
        script.onload = () => resolve(inside)
        script.src = url
        frame.contentDocument.body.append(script)
      })
    }

    async postMessage(data) {
      const inside = await this.started
      inside.dispatchEvent(new MessageEvent("message", { data }))
    }
  }
  window.Worker = window.IFrameWorker
}
