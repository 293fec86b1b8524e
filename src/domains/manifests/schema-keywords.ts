import { z } from 'zod'
import { parseTemplate } from '../templating/templates.ts'
import { cpuPattern, DURATION_CHARS_MAX, durationPattern, sizePattern } from './units.ts'

/** Building blocks of manifest schemas: each value with its bound and with the rule that a refusal states. */
export const rule = (text: string) => ({ error: text })
export const text = (max: number, description: string) =>
  z.string(rule('must be a string')).min(1, rule('must not be empty')).max(max).describe(description)
/** A string that must not be blank. */
export const filled = (max: number, description: string) =>
  z
    .string(rule('must be a string'))
    .min(1, { ...rule('must not be blank'), abort: true })
    .max(max)
    .refine((value) => value.trim() !== '', rule('must not be blank'))
    .describe(description)
export const templateProblem = (value: string): string | undefined => {
  const problem = value.includes('{{') ? parseTemplate(value).problem : null
  return problem === null ? undefined : `is not a template: ${problem}`
}
/** A template that cannot be parsed is refused when the manifest is registered. */
const templateRule = (value: string, context: z.core.$RefinementCtx<string>): void => {
  const problem = templateProblem(value)
  if (problem !== undefined) context.addIssue(problem)
}
/** May be blank. */
export const template = (max: number, description: string) =>
  z.string(rule('must be a string')).max(max).superRefine(templateRule).describe(description)
export const filledTemplate = (max: number, description: string) =>
  filled(max, description).superRefine(templateRule).describe(description)
/** A map of strings, numbers and booleans, converted to strings. */
export const values = (max: number, description: string) =>
  z
    .record(
      z.string(),
      z
        .union([z.string(), z.number(), z.boolean()], rule('must be a string'))
        .transform(String)
        .refine((text) => text.length <= max, rule(`must not be longer than ${max} characters`)),
      rule('must be an object of strings'),
    )
    .describe(description)
export const number = (min: number, max: number, description: string) => {
  const message = rule(`must be a number from ${min} to ${max}`)
  return z.number(message).min(min, message).max(max, message).describe(description)
}
export const flag = (value: boolean, description: string) =>
  z.boolean(rule('must be true or false')).default(value).describe(description)
export const whole = (min: number, max: number, description: string) => {
  const message = rule(`must be a whole number from ${min} to ${max}`)
  return z.int(message).min(min, message).max(max, message).describe(description)
}
export const share = (value: number, description: string) => number(0, 1, description).default(value)
export const oneOf = <const T extends readonly [string, ...string[]]>(values: T, description: string) =>
  z.enum(values, rule(`must be one of ${values.join(', ')}`)).describe(description)
export const group = <Shape extends z.core.$ZodLooseShape>(shape: Shape, description: string) =>
  z.strictObject(shape, rule('must be an object')).describe(description)
export const listOf = <Item extends z.ZodType>(item: Item, max: number, description: string) =>
  z
    .array(item, rule('must be a list'))
    .max(max, rule(`must not contain more than ${max} entries`))
    .describe(description)
export const textMap = (max: number, description: string) =>
  z
    .record(text(256, 'name'), z.string(rule('must be a string')).max(max), rule('must be an object of strings'))
    .describe(description)
export const anything = (description: string) =>
  z.record(z.string(), z.unknown(), rule('must be an object')).describe(description)
export const jsonSchema = (description: string) =>
  z.union([z.record(z.string(), z.unknown()), z.boolean()], rule('must be a JSON Schema')).describe(description)
const isMoreThanNothing = (value: string | number): boolean => /[1-9]/.test(String(value))
export const duration = (description: string) => {
  const message = rule('must be a duration such as 90s, 10m or 1h')
  return z
    .union(
      [
        z.string().max(DURATION_CHARS_MAX, message).regex(durationPattern, message),
        z.number().positive().max(2_592_000),
      ],
      message,
    )
    .refine(isMoreThanNothing, rule('must be greater than zero, such as 90s'))
    .describe(description)
}
export const size = (description: string) => {
  const message = rule('must be a size such as 512Mi or 1Gi, or a number of bytes')
  return z
    .union([z.string().regex(sizePattern, message), z.int().positive()], message)
    .refine(isMoreThanNothing, rule('must be greater than zero, such as 512Mi'))
    .describe(description)
}
export const cpu = (description: string) => {
  const message = rule('must be millicores such as 500')
  return z
    .union([z.int().positive().max(128_000), z.string().regex(cpuPattern, message)], message)
    .describe(description)
}
export const seconds = (description: string) => whole(1, 86_400, description)
const oneWord = rule('must be a list of at least one word')
/** A program and its arguments, each a template. */
export const commandWords = z
  .array(z.string(rule('must be a string')).max(131_072).superRefine(templateRule), oneWord)
  .min(1, oneWord)
  .max(256, rule('must not contain more than 256 words'))
  .describe('Program and arguments, each a template.')
