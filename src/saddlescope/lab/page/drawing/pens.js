// Two pens with the same methods: one draws on the screen, the other into a file.

const FONT = "system-ui, sans-serif";
const HALO = 3.5;

export class CanvasPen {
  constructor(context, ratio = 1) {
    this.context = context;
    this.ratio = ratio;
  }

  line(points, { colour, width = 1.4, dash = [], alpha = 1, close = false, fill = null }) {
    const { context, ratio } = this;
    context.save();
    context.globalAlpha = alpha;
    context.beginPath();
    let pen = false;
    for (const [x, y] of points) {
      if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = false; continue; }
      if (pen) context.lineTo(x, y);
      else context.moveTo(x, y);
      pen = true;
    }
    if (close) context.closePath();
    if (fill) { context.fillStyle = fill; context.fill(); }
    if (colour) {
      context.strokeStyle = colour;
      context.lineWidth = width * ratio;
      context.lineJoin = "round";
      context.setLineDash(dash.map((one) => one * ratio));
      context.stroke();
    }
    context.restore();
  }

  circle(x, y, radius, { fill = null, colour = null, width = 1.4, alpha = 1 }) {
    const { context, ratio } = this;
    context.save();
    context.globalAlpha = alpha;
    context.beginPath();
    context.arc(x, y, radius * ratio, 0, 2 * Math.PI);
    if (fill) { context.fillStyle = fill; context.fill(); }
    if (colour) { context.strokeStyle = colour; context.lineWidth = width * ratio; context.stroke(); }
    context.restore();
  }

  rectangle(x, y, width, height, { fill = null, colour = null }) {
    if (fill) { this.context.fillStyle = fill; this.context.fillRect(x, y, width, height); }
    if (colour) {
      this.context.strokeStyle = colour;
      this.context.lineWidth = this.ratio;
      this.context.strokeRect(x, y, width, height);
    }
  }

  /** `halo` is a colour around the letters, for words that lie over lines. */
  text(x, y, words, { colour, size = 11, align = "left", weight = 400, halo = null }) {
    const { context, ratio } = this;
    context.font = `${weight} ${size * ratio}px ${FONT}`;
    context.fillStyle = colour;
    context.textAlign = align;
    context.textBaseline = "middle";
    if (halo) {
      context.strokeStyle = halo;
      context.lineWidth = HALO * ratio;
      context.lineJoin = "round";
      context.strokeText(words, x, y);
    }
    context.fillText(words, x, y);
  }

  clipped(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }
}

const escape = (text) => String(text).replace(/[&<>"]/g, (one) => `&#${one.charCodeAt(0)};`);
const round = (value) => Math.round(value * 100) / 100;

export class SvgPen {
  constructor(width, height, paper) {
    this.size = [width, height];
    this.ratio = 1;
    this.clips = 0;
    this.parts = [`<rect width="${width}" height="${height}" fill="${paper}"/>`];
  }

  line(points, { colour, width = 1.4, dash = [], alpha = 1, close = false, fill = null }) {
    let path = "", pen = false;
    for (const [x, y] of points) {
      if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = false; continue; }
      path += `${pen ? "L" : "M"}${round(x)} ${round(y)}`;
      pen = true;
    }
    if (!path) return;
    const broken = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.parts.push(`<path d="${path}${close ? "Z" : ""}" fill="${fill ?? "none"}" ` +
      `stroke="${colour ?? "none"}" stroke-width="${width}" stroke-linejoin="round" ` +
      `opacity="${alpha}"${broken}/>`);
  }

  circle(x, y, radius, { fill = null, colour = null, width = 1.4, alpha = 1 }) {
    this.parts.push(`<circle cx="${round(x)}" cy="${round(y)}" r="${radius}" ` +
      `fill="${fill ?? "none"}" stroke="${colour ?? "none"}" stroke-width="${width}" ` +
      `opacity="${alpha}"/>`);
  }

  rectangle(x, y, width, height, { fill = null, colour = null }) {
    this.parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" ` +
      `height="${round(height)}" fill="${fill ?? "none"}" stroke="${colour ?? "none"}"/>`);
  }

  text(x, y, words, { colour, size = 11, align = "left", weight = 400, halo = null }) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const around = halo ? ` stroke="${halo}" stroke-width="${HALO}" stroke-linejoin="round" ` +
                          `paint-order="stroke"` : "";
    this.parts.push(`<text x="${round(x)}" y="${round(y)}" fill="${colour}" font-size="${size}" ` +
      `font-weight="${weight}" text-anchor="${anchor}" dominant-baseline="central"${around}>` +
      `${escape(words)}</text>`);
  }

  clipped(x, y, width, height, draw) {
    const name = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${name}"><rect x="${x}" y="${y}" width="${width}" ` +
      `height="${height}"/></clipPath><g clip-path="url(#${name})">`);
    draw();
    this.parts.push("</g>");
  }

  toString() {
    const [width, height] = this.size;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" font-family="${FONT}">${this.parts.join("")}</svg>`;
  }
}
