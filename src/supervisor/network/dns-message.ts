import { isIPv4 } from 'node:net'

/** A DNS question. `name` is in lower case without the final dot, `end` is its end offset in the message. */
type Question = Readonly<{ name: string; type: number; end: number }>

export const TYPE_A = 1
export const TYPE_AAAA = 28
const CLASS_IN = 1
const HEADER_BYTES = 12
const NAME_BYTES_MAX = 255
const LABEL_BYTES_MAX = 63
const FLAG_ANSWER = 0x8000
const FLAG_RECURSION_DESIRED = 0x0100
const FLAG_RECURSION_AVAILABLE = 0x0080
const CODE_NO_ERROR = 0
const CODE_NO_SUCH_NAME = 3
/** Short, because the policy may change. */
const ANSWER_SECONDS = 5

/** Returns undefined unless the message is a query with exactly one question. */
export function readQuestion(message: Buffer): Question | undefined {
  if (message.length < HEADER_BYTES || message.readUInt16BE(2) & (FLAG_ANSWER | 0x7800)) return undefined
  if (message.readUInt16BE(4) !== 1) return undefined
  const labels: string[] = []
  let at = HEADER_BYTES
  while (message[at] !== 0) {
    const length = message[at]
    if (length === undefined || length > LABEL_BYTES_MAX || at + length - HEADER_BYTES > NAME_BYTES_MAX)
      return undefined
    labels.push(message.toString('latin1', at + 1, at + 1 + length).toLowerCase())
    at += 1 + length
  }
  if (message.length < at + 5 || message.readUInt16BE(at + 3) !== CLASS_IN) return undefined
  return { name: labels.join('.'), type: message.readUInt16BE(at + 1), end: at + 5 }
}

/** Answers with this IPv4 address and no other record; without an address, with NXDOMAIN. */
export function answerTo(message: Buffer, { type, end }: Question, address: string | undefined): Buffer {
  const hasRecord = address !== undefined && type === TYPE_A
  const head = Buffer.alloc(HEADER_BYTES)
  message.copy(head, 0, 0, 2)
  const desired = message.readUInt16BE(2) & FLAG_RECURSION_DESIRED
  const code = address === undefined ? CODE_NO_SUCH_NAME : CODE_NO_ERROR
  head.writeUInt16BE(FLAG_ANSWER | desired | FLAG_RECURSION_AVAILABLE | code, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(hasRecord ? 1 : 0, 6)
  const question = message.subarray(HEADER_BYTES, end)
  if (!hasRecord) return Buffer.concat([head, question])
  const octets = address.split('.').map(Number)
  // A compression pointer to the name in the question.
  const record = [0xc0, HEADER_BYTES, 0, TYPE_A, 0, CLASS_IN, 0, 0, 0, ANSWER_SECONDS, 0, octets.length, ...octets]
  return Buffer.concat([head, question, Buffer.from(record)])
}

export function queryFor(id: number, name: string, type: number): Buffer {
  const head = Buffer.alloc(HEADER_BYTES)
  head.writeUInt16BE(id)
  head.writeUInt16BE(FLAG_RECURSION_DESIRED, 2)
  head.writeUInt16BE(1, 4)
  const labels = name.split('.').flatMap((label) => [Buffer.from([label.length]), Buffer.from(label, 'latin1')])
  return Buffer.concat([head, ...labels, Buffer.from([0, 0, type, 0, CLASS_IN])])
}

/** Every address in a DNS answer. For a malformed answer, those before the fault. */
export function addressesIn(answer: Buffer): string[] {
  const found: string[] = []
  const afterName = (at: number): number => {
    while (at < answer.length) {
      const length = answer[at]!
      if (length === 0) return at + 1
      if (length >= 0xc0) return at + 2
      at += 1 + length
    }
    return answer.length
  }
  if (answer.length < HEADER_BYTES) return found
  let at = HEADER_BYTES
  for (let left = answer.readUInt16BE(4); left > 0; left--) at = afterName(at) + 4
  for (let left = answer.readUInt16BE(6); left > 0; left--) {
    at = afterName(at)
    if (at + 10 > answer.length) return found
    const [type, length] = [answer.readUInt16BE(at), answer.readUInt16BE(at + 8)]
    const data = answer.subarray(at + 10, at + 10 + length)
    if (type === TYPE_A && data.length === 4) found.push([...data].join('.'))
    if (type === TYPE_AAAA && data.length === 16) found.push(data.toString('hex').replaceAll(/(....)(?!$)/g, '$1:'))
    at += 10 + length
  }
  return found.toSorted((one, other) => Number(isIPv4(other)) - Number(isIPv4(one)))
}
