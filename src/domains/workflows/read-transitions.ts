import { nearestName } from '../../kernel/nearest-name.ts'
import { checkExpression, checkTemplate } from './check-texts.ts'
import {
  type Condition,
  conditionTypes,
  type PlainCondition,
  plainConditions,
  type Transition,
  thresholdConditions,
} from './manifest-types.ts'
import { type Fields, type Findings, openFields, quoted } from './read-fields.ts'

/** Names that manifests use for what has another name now. */
const oldConditions: Readonly<Record<string, (typeof conditionTypes)[number]>> = {
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

const shape = {
  known: ['condition', 'target', 'feedback', 'threshold', 'min', 'max', 'agreement', 'value', 'expression'],
  renamed: {
    to: 'target',
    next: 'target',
    target_state: 'target',
    next_state: 'target',
    expr: 'expression',
    when: 'condition',
  },
}

export function readTransitions(findings: Findings, at: string, value: unknown): readonly Transition[] {
  if (value === undefined || value === null) {
    findings.warn(at, 'is absent, so the run ends here; write transitions: [] to say so')
    return []
  }
  if (!Array.isArray(value)) {
    findings.error(at, 'must be a list; an empty one ends the run')
    return []
  }
  if (value.length > 100) findings.error(at, 'must have at most 100 entries')
  return value.slice(0, 100).flatMap((item, index) => readTransition(findings, `${at}[${index}]`, item) ?? [])
}

function readTransition(findings: Findings, at: string, value: unknown): Transition | undefined {
  const fields = openFields(findings, at, value, shape)
  if (fields === undefined) return undefined
  const target = fields.text('target', { required: true, max: 128 })
  const condition = readCondition(fields)
  const feedback = fields.text('feedback', { blank: true }) ?? null
  checkTemplate(fields, 'feedback', feedback)
  return target === undefined || condition === undefined ? undefined : { condition, target, feedback }
}

function readCondition(fields: Fields): Condition | undefined {
  const input = fields.raw('condition')
  if (typeof input === 'string' && input.includes('{{')) {
    fields.warn('condition', 'a template is read as condition: custom; give it as expression')
    checkExpression(fields, 'condition', input)
    return { type: 'custom', expression: input }
  }
  const type = conditionType(fields)
  if (type === undefined) return undefined
  if ((plainConditions as readonly string[]).includes(type)) return { type: type as PlainCondition }
  const threshold = (fallback?: number) => requiredNumber(fields, 'threshold', fallback)
  switch (type) {
    case 'exit_code': {
      const value = fields.number('value', { integer: true, min: 0, max: 255 })
      if (value === undefined) return missing(fields, 'value')
      return { type, value }
    }
    case 'score_between': {
      const [min, max] = [requiredNumber(fields, 'min'), requiredNumber(fields, 'max')]
      if (min === undefined || max === undefined) return undefined
      if (min > max) return void fields.error('min', 'must not be above max')
      return { type, min, max }
    }
    case 'consensus': {
      const [least, agreement] = [threshold(), requiredNumber(fields, 'agreement', 0)]
      return least === undefined || agreement === undefined ? undefined : { type, threshold: least, agreement }
    }
    case 'all_approved':
    case 'any_rejected':
      return { type, threshold: threshold(0.8) ?? 0.8 }
    case 'input_equals': {
      const value = fields.text('value', { blank: true })
      return value === undefined ? missing(fields, 'value') : { type, value }
    }
    case 'custom': {
      const expression = fields.text('expression', { max: 4000 })
      if (expression === undefined) return missing(fields, 'expression')
      checkExpression(fields, 'expression', expression)
      return { type, expression }
    }
    default: {
      const found = thresholdConditions.find((candidate) => candidate === type)!
      const least = threshold()
      return least === undefined ? undefined : { type: found, threshold: least }
    }
  }
}

type ConditionType = (typeof conditionTypes)[number]

function conditionType(fields: Fields): ConditionType | undefined {
  const input = fields.raw('condition')
  if (input === undefined) {
    if (fields.raw('expression') !== undefined) {
      fields.warn('condition', 'is absent; read as custom because an expression is given')
      return 'custom'
    }
    fields.warn('condition', 'is absent and read as always; write condition: always')
    return 'always'
  }
  if (input === true) {
    fields.warn('condition', 'true is read as always; write condition: always')
    return 'always'
  }
  if (typeof input !== 'string') return void fields.error('condition', `must be one of ${conditionTypes.join(', ')}`)
  const name = input.trim().toLowerCase().replaceAll('-', '_')
  const found = conditionTypes.find((candidate) => candidate === name)
  if (found !== undefined) {
    if (found !== input) fields.warn('condition', `is an old spelling; write ${found}`)
    if (found === 'timeout') {
      fields.warn('condition', 'timeout is our own: it holds when the time of the state ran out')
    }
    return found
  }
  const old = Object.hasOwn(oldConditions, name) ? oldConditions[name]! : undefined
  if (old === undefined) {
    const near = nearestName(input, conditionTypes)
    const hint = near === undefined ? `use one of ${conditionTypes.join(', ')}` : `did you mean ${near}?`
    return void fields.error('condition', `${quoted(input)} is not a condition; ${hint}`)
  }
  fields.warn('condition', `${name} is an old spelling; write ${old}`)
  return old
}

function requiredNumber(fields: Fields, key: string, fallback?: number): number | undefined {
  if (fields.raw(key) === undefined && fallback === undefined) return missing(fields, key)
  return fields.number(key, { min: 0, max: 1 }) ?? fallback
}

const missing = (fields: Fields, key: string): undefined => {
  if (fields.raw(key) === undefined) fields.error(key, 'is required by this condition')
  return undefined
}
