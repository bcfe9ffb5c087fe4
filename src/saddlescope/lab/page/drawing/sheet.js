// A free drawing on a canvas: heat maps, graphs, answers. A picture has draw(pen, width, height).

import { CanvasPen } from "./pens.js";

export class Sheet {
  constructor(stage) {
    this.canvas = document.createElement("canvas");
    this.stage = stage;
    stage.append(this.canvas);
  }

  show(picture) {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || !height) return;
    const ratio = devicePixelRatio;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio))
      this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    picture.draw(new CanvasPen(context), width, height);
  }

  moveTo() {}
}
