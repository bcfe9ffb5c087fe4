// Frames of the server: a header, and arrays where they lie in the message.

const TYPES = { f4: Float32Array, f8: Float64Array };

/** An array with a shape: `at(i, j, …)` is one number of it. */
export class Shaped {
  /** Its first axis begins at place `first`: what comes before is not there. */
  constructor(data, shape, first = 0) {
    this.data = data;
    this.shape = shape;
    this.strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
    this.origin = -first * this.strides[0];
  }

  /** Where in the data a place is. */
  offset(...place) {
    let offset = this.origin;
    for (let axis = 0; axis < place.length; axis++) offset += place[axis] * this.strides[axis];
    return offset;
  }

  at(...place) { return this.data[this.offset(...place)]; }

  /** What lies behind the first axes, as a flat view. */
  row(...place) {
    const offset = this.offset(...place);
    return this.data.subarray(offset, offset + this.strides[place.length - 1]);
  }
}

/** The header of a frame, with its arrays in place of their descriptions. */
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, one] of Object.entries(header.arrays)) {
    const count = one.shape.reduce((a, b) => a * b, 1);
    const data = new TYPES[one.type](buffer, 4 + length + one.offset, count);
    arrays[name] = new Shaped(data, one.shape);
  }
  return { ...header, arrays };
}

export function toText(buffer) {
  const bytes = new Uint8Array(buffer);
  const pieces = [];
  for (let begin = 0; begin < bytes.length; begin += 32768)
    pieces.push(String.fromCharCode(...bytes.subarray(begin, begin + 32768)));
  return btoa(pieces.join(""));
}

export function fromText(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
}
