import { z } from 'zod'

/** A field that holds a secret (`writeOnly` is JSON Schema's word for it): `env:NAME` is resolved, printers redact. */
export const secret = { writeOnly: true } as const

export const rule = (text: string) => ({ error: `must be ${text}` })

/** The field that the rule is about: an entry that breaks the rule of its list is told the rule of the list. */
export const subjectOf = ({ path, message }: Readonly<{ path: readonly PropertyKey[]; message: string }>) =>
  typeof path.at(-1) === 'number' && message.startsWith('must be a list') ? path.slice(0, -1) : path

/** The rules of a list of objects: that of the list, and that of one entry. */
export const objectsWith = (what: string) => ({
  list: rule(`a list of objects with ${what}`),
  entry: rule(`an object with ${what}`),
})

/**
 * Ports that `fetch` never connects to, because other protocols have them (https://fetch.spec.whatwg.org/#bad-port). Its error says only
 * that it failed.
 */
const blockedPorts: ReadonlySet<number> = new Set([
  ...[
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  ],
  ...[
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  ],
  ...[540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061],
  ...[6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080],
])
export const portRule = {
  error: 'must have another port: HTTP clients refuse to connect to this one, because it belongs to another protocol',
}
export const hasUsablePort = (url: string): boolean => !blockedPorts.has(Number(URL.parse(url)?.port))

export const flag = (value: boolean, description: string) =>
  z.boolean(rule('true or false')).default(value).describe(description)
export const wholeNumber = (value: number, min: number, max: number, description: string) => {
  const message = rule(`a whole number from ${min} to ${max}`)
  return z.int(message).min(min, message).max(max, message).default(value).describe(description)
}
export const listOf = (entry: string) =>
  z.array(z.string(rule(entry)).min(1, rule(entry)), rule(`a list, each entry ${entry}`))

export const bucket = (perMinute: number, burst: number, what: string) =>
  z
    .strictObject(
      {
        per_minute: wholeNumber(perMinute, 1, 1_000_000, `Calls that each principal may make in a minute: ${what}.`),
        burst: wholeNumber(
          burst,
          1,
          1_000_000,
          `Calls that each principal may make at once before the rate applies: ${what}.`,
        ),
      },
      rule('an object'),
    )
    .prefault({})
    .describe(`Token bucket: ${what}.`)

export const group = <Shape extends z.core.$ZodLooseShape>(shape: Shape, description: string) =>
  z
    .strictObject(shape, rule('an object'))
    .prefault({} as never)
    .describe(description)
