/** Numbers of fields in onnx.proto. */
const MODEL_GRAPH = 7
const GRAPH_INITIALIZER = 5
const TENSOR = { floats: 4, name: 8, raw: 9 } as const

/** The weights of an ONNX file by name, as their numbers lie in the file, without a copy. The file comes with the program: its form is trusted. */
export function readOnnxTensors(file: Uint8Array): ReadonlyMap<string, Uint8Array> {
  const tensors = new Map<string, Uint8Array>()
  for (const [field, graph] of messageFields(file)) {
    if (field !== MODEL_GRAPH || typeof graph === 'number') continue
    for (const [part, tensor] of messageFields(graph)) {
      if (part === GRAPH_INITIALIZER && typeof tensor !== 'number') addTensor(tensors, tensor)
    }
  }
  return tensors
}

function addTensor(tensors: Map<string, Uint8Array>, message: Uint8Array): void {
  let name = ''
  let bytes: Uint8Array = new Uint8Array(0)
  for (const [field, value] of messageFields(message)) {
    if (typeof value === 'number') continue
    if (field === TENSOR.name) name = new TextDecoder().decode(value)
    if (field === TENSOR.raw || field === TENSOR.floats) bytes = value
  }
  tensors.set(name, bytes)
}

/** The fields of a message of Protocol Buffers: a number, or the bytes of everything else. */
function* messageFields(message: Uint8Array): Generator<readonly [field: number, value: number | Uint8Array]> {
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = message[at++]!
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
  }
  while (at < message.length) {
    const tag = varint()
    const wireType = tag & 7
    if (wireType === 0) {
      yield [tag >>> 3, varint()]
      continue
    }
    const length = wireType === 2 ? varint() : wireType === 5 ? 4 : 8
    yield [tag >>> 3, message.subarray(at, at + length)]
    at += length
  }
}
