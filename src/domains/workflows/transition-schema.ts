import { z } from 'zod'
import { nearestName } from '../../kernel/nearest-name.ts'
import { quoted } from '../manifests/findings.ts'
import { loosely, type Notes } from '../manifests/present-spelling.ts'
import { isFields, type YamlFields } from '../manifests/read-yaml.ts'
import { filled, group, number, oneOf, rule, template } from '../manifests/schema-keywords.ts'
import { parseExpression } from './expressions.ts'
import { issue, TEXT_MAX } from './schema-words.ts'

const plainConditions = [
  'always',
  'on_success',
  'on_failure',
  'exit_code_zero',
  'exit_code_non_zero',
  'input_equals_yes',
  'input_equals_no',
  'timeout',
] as const
const thresholdConditions = ['score_above', 'score_below', 'confidence_above', 'score_and_confidence_above'] as const
const conditionTypes = [
  ...plainConditions,
  ...thresholdConditions,
  'exit_code',
  'score_between',
  'consensus',
  'all_approved',
  'any_rejected',
  'input_equals',
  'custom',
] as const
type ConditionType = (typeof conditionTypes)[number]

export type Condition =
  | Readonly<{ type: (typeof plainConditions)[number] }>
  | Readonly<{ type: 'exit_code'; value: number }>
  | Readonly<{ type: (typeof thresholdConditions)[number]; threshold: number }>
  | Readonly<{ type: 'score_between'; min: number; max: number }>
  | Readonly<{ type: 'consensus'; threshold: number; agreement: number }>
  | Readonly<{ type: 'all_approved' | 'any_rejected'; threshold: number }>
  | Readonly<{ type: 'input_equals'; value: string }>
  | Readonly<{ type: 'custom'; expression: string }>

/** The fields of each type of condition. */
const ownFields: Readonly<Partial<Record<ConditionType, readonly string[]>>> = {
  ...Object.fromEntries(thresholdConditions.map((type) => [type, ['threshold']])),
  exit_code: ['value'],
  score_between: ['min', 'max'],
  consensus: ['threshold', 'agreement'],
  all_approved: ['threshold'],
  any_rejected: ['threshold'],
  input_equals: ['value'],
  custom: ['expression'],
}

const optionalFields: Readonly<Partial<Record<ConditionType, string>>> = {
  consensus: 'agreement',
  all_approved: 'threshold',
  any_rejected: 'threshold',
}

/** Legacy names of conditions. */
const oldConditions: Readonly<Record<string, ConditionType>> = {
  approved: 'input_equals_yes',
  rejected: 'input_equals_no',
  on_approved: 'input_equals_yes',
  on_rejected: 'input_equals_no',
  on_timeout: 'timeout',
  success: 'on_success',
  failure: 'on_failure',
  failed: 'on_failure',
  default: 'always',
  else: 'always',
  expression: 'custom',
}

const share = (description: string) => number(0, 1, description).optional()

const written = loosely(
  group(
    {
      condition: oneOf(conditionTypes, 'The first transition whose condition holds is taken.').default('always'),
      target: filled(128, 'Name of the next state.'),
      feedback: template(TEXT_MAX, 'Template; the next state finds it as {{state.feedback}}.').optional(),
      threshold: share(
        'For score_above (at least), score_below (less than), confidence_above, score_and_confidence_above, consensus, all_approved, any_rejected.',
      ),
      min: share('For score_between.'),
      max: share('For score_between.'),
      agreement: share('For consensus.'),
      value: z
        .union([z.string(), z.int()], rule('must be a string or a whole number'))
        .optional()
        .describe('For exit_code and input_equals.'),
      expression: filled(4_000, 'For custom: a path, a helper call, or a CEL expression over the blackboard.')
        .superRefine((text, context) => {
          const { problem } = parseExpression(text)
          if (problem !== null) context.addIssue(`is not an expression: ${problem}`)
        })
        .optional(),
    },
    'Where a run continues.',
  ),
  {
    renamed: {
      to: 'target',
      next: 'target',
      target_state: 'target',
      next_state: 'target',
      expr: 'expression',
      when: 'condition',
    },
    read: refuseMisspelt,
    complete: readCondition,
  },
)

type Written = z.output<typeof written>

const transition = written
  .transform((fields, context) => {
    const refuse = (key: string, problem: string): void => context.addIssue({ ...issue(problem), path: [key] })
    const missing = (ownFields[fields.condition] ?? []).filter(
      (key) => fields[key as keyof Written] === undefined && optionalFields[fields.condition] !== key,
    )
    for (const key of missing) refuse(key, 'is required by this condition')
    const condition = missing.length > 0 ? undefined : conditionOf(fields, refuse)
    return condition === undefined ? z.NEVER : { condition, target: fields.target, feedback: fields.feedback ?? null }
  })
  .meta({ id: 'transition' })
export type Transition = Readonly<z.output<typeof transition>>

function conditionOf(fields: Written, refuse: (key: string, problem: string) => void): Condition | undefined {
  const { condition: type, threshold = 0, min = 0, max = 1, value = '', expression = '' } = fields
  switch (type) {
    case 'exit_code':
      if (typeof value === 'number' && value >= 0 && value <= 255) return { type, value }
      return void refuse('value', 'must be a whole number from 0 to 255')
    case 'score_between':
      return min <= max ? { type, min, max } : void refuse('min', 'must not be above max')
    case 'consensus':
      return { type, threshold, agreement: fields.agreement ?? 0 }
    case 'all_approved':
    case 'any_rejected':
      return { type, threshold: fields.threshold ?? 0.8 }
    case 'input_equals':
      return { type, value: String(value) }
    case 'custom':
      return { type, expression }
    case 'score_above':
    case 'score_below':
    case 'confidence_above':
    case 'score_and_confidence_above':
      return { type, threshold }
    default:
      return { type }
  }
}

/** A transition without a condition is always taken, so a misspelt condition must be refused. */
function refuseMisspelt(value: unknown, { error }: Notes): unknown {
  if (!isFields(value)) return value
  const keys = Object.keys(value)
  if (keys.some((key) => key === 'when' || key.toLowerCase() === 'condition')) return value
  const misspelt = keys.find((key) => nearestName(key, ['condition']) !== undefined)
  if (misspelt !== undefined) error('is not a field; did you mean condition?', misspelt)
  return value
}

function readCondition(fields: YamlFields, notes: Notes): void {
  const type = conditionType(fields, notes)
  if (type === undefined) return
  fields['condition'] = type
  for (const key of Object.values(ownFields).flat()) {
    if (fields[key] === undefined || ownFields[type]?.includes(key)) continue
    notes.warn(`has no effect with condition: ${type}`, key)
    delete fields[key]
  }
  const { value } = fields
  if (type === 'exit_code' && typeof value === 'string' && /^\s*\d+\s*$/.test(value)) fields['value'] = Number(value)
  if (type === 'input_equals' && (typeof value === 'number' || typeof value === 'boolean')) {
    notes.warn('is read as a string; put it in quotes', 'value')
    fields['value'] = String(value)
  }
}

/** Undefined if the type is refused, here or by the schema. */
function conditionType(fields: YamlFields, { warn, error }: Notes): ConditionType | undefined {
  const { condition: input } = fields
  if (input === undefined) {
    if (fields['expression'] !== undefined) {
      warn('is absent; read as custom because there is an expression', 'condition')
      return 'custom'
    }
    warn('is absent and read as always; write condition: always', 'condition')
    return 'always'
  }
  if (input === true) {
    warn('true is read as always; write condition: always', 'condition')
    return 'always'
  }
  if (typeof input !== 'string') return undefined
  if (input.includes('{{')) {
    warn('a template is read as condition: custom; give it as expression', 'condition')
    fields['expression'] = input
    return 'custom'
  }
  const name = input.trim().toLowerCase().replaceAll('-', '_')
  const found = conditionTypes.find((candidate) => candidate === name)
  if (found === 'timeout')
    warn('timeout is an extension of this server: it matches when the time of the state ran out', 'condition')
  if (found !== undefined) {
    if (found !== input) warn(`is an old spelling; write ${found}`, 'condition')
    return found
  }
  const old = Object.hasOwn(oldConditions, name) ? oldConditions[name]! : undefined
  if (old === undefined) {
    const near = nearestName(input, conditionTypes)
    const hint = near === undefined ? `use one of ${conditionTypes.join(', ')}` : `did you mean ${near}?`
    error(`${quoted(input)} is not a condition; ${hint}`, 'condition')
    return undefined
  }
  warn(`${name} is an old spelling; write ${old}`, 'condition')
  return old
}

const TRANSITIONS_MAX = 100

export const transitions = loosely(
  z
    .array(transition, rule('must be a list; an empty one ends the run'))
    .max(TRANSITIONS_MAX, rule(`must have at most ${TRANSITIONS_MAX} entries`))
    .describe('Tried in order; an empty list ends the run.'),
  {
    read(value, { warn }) {
      if (value !== undefined) return value
      warn('is absent, so the run ends here; write transitions: [] to say so')
      return []
    },
  },
)
