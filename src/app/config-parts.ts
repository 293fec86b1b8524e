import { z } from 'zod'

/** A field that holds a secret (`writeOnly` is JSON Schema's word for it): `env:NAME` is resolved, printers redact. */
export const secret = { writeOnly: true } as const

export const rule = (text: string) => ({ error: `must be ${text}` })
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
        per_minute: wholeNumber(perMinute, 1, 1_000_000, `Calls a minute that each principal may make: ${what}.`),
        burst: wholeNumber(burst, 1, 1_000_000, `Calls that may come at once before the rate applies: ${what}.`),
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
