import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { loosely, type Notes } from '../manifests/present-spelling.ts'
import { isFields } from '../manifests/read-yaml.ts'
import { rule, templateProblem, values } from '../manifests/schema-keywords.ts'
import { containerBytes, containerMillicores, readDuration } from '../manifests/units.ts'

export const TEXT_MAX = 100_000
const TIMEOUT_MS_MAX = 366 * 86_400_000

/** Reserved blackboard names. Neither a state nor update_blackboard may use them. */
export const reservedKeys: readonly string[] = ['input', 'intent', 'tenant_id', 'attachments', 'workflow', 'blackboard']

/** `state` is a built-in name of templates. A key of that name is allowed, but hides the feedback. */
export const hidesState = (key: string): string | undefined =>
  key === 'state'
    ? 'hides the state of the run: {{state.feedback}} and {{state.visit}} are empty then; choose another name'
    : undefined

const textOrNumber = (problem: string) => z.union([z.string(), z.number()], rule(problem))

/** A quantity that is parsed to a number, or refused with its rule. */
const quantity = (problem: string, read: (value: string | number) => number | undefined) =>
  textOrNumber(problem).transform((value, context) => {
    const amount = read(value)
    if (amount !== undefined) return amount
    context.addIssue(problem)
    return z.NEVER
  })

const duration = (mostMs: number, most: string) => (description: string) =>
  quantity('must be a duration such as 90s, 15m or 24h', (value) => {
    const ms = readDuration(value)
    return ms === undefined || ms < 1 ? undefined : ms
  })
    .refine((ms) => ms <= mostMs, rule(`must be at most ${most}`))
    .describe(`${description} Write 90s, 15m or 24h; a plain number is seconds.`)

export const time = duration(TIMEOUT_MS_MAX, '366 days')
/** No command may run longer than the back end allows. */
export const commandTime = duration(
  limits.execTimeoutSecsMax * 1_000,
  `${limits.execTimeoutSecsMax / 3_600}h, the longest time of a command`,
)
export const containerSize = (description: string) =>
  quantity('must be a size such as 512m, 2g or 128Mi', containerBytes).describe(`${description} Such as 512m or 128Mi.`)
export const containerCpu = (description: string) =>
  quantity('must be millicores, such as 500', containerMillicores).describe(description)

/** A map or list in place of a text becomes its JSON; an entry without a value is dropped. */
export const textsOfMap = (value: unknown): unknown => {
  if (!isFields(value)) return value
  const entries = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(
    entries.map(([name, member]) => [name, typeof member === 'object' ? JSON.stringify(member) : member]),
  )
}
export const texts = (description: string) => loosely(values(TEXT_MAX, description), { read: textsOfMap })
export const templates = (description: string) =>
  loosely(
    values(TEXT_MAX, description).superRefine((all, context) => {
      for (const [name, text] of Object.entries(all)) {
        const problem = templateProblem(text)
        if (problem !== undefined) context.addIssue({ ...issue(problem), path: [name] })
      }
    }),
    { read: textsOfMap },
  )

/** For `superRefine`: the rule that a field breaks. */
export const issue = (message: string) => ({ code: 'custom' as const, message })

/** A purely descriptive field. An invalid value is dropped, because the field has no effect. */
export const forReaders = <Schema extends z.ZodType>(schema: Schema) =>
  loosely(schema.optional(), {
    read(value, { warn }) {
      if (value === undefined || value === null || schema.safeParse(value).success) return value
      warn('has no effect and is left out')
      return undefined
    },
  })

/** The words of a command; a string is a line for a shell. */
export function readWords(value: unknown, { warn }: Notes): unknown {
  if (typeof value === 'string' && value.trim() !== '') {
    warn('is a string and is run by a shell; write a list of words, such as ["sh", "-c", "…"]')
    return ['sh', '-c', value]
  }
  if (!Array.isArray(value)) return value
  return value.map((word) => (typeof word === 'object' ? JSON.stringify(word) : String(word)))
}
