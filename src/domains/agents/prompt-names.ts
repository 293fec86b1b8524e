import { nearestName } from '../../kernel/nearest-name.ts'
import { isFields } from '../manifests/read-yaml.ts'
import { namesIn } from '../templating/template-names.ts'
import { parseTemplate } from '../templating/templates.ts'
import type { WrittenManifest } from './manifest-schema.ts'

const ofPrompt = ['instruction', 'intent', 'input', 'iteration_number', 'previous_error', 'context']
const ofHandler = ['output', 'intent']

/**
 * Names in the texts of an agent that nothing gives a value. A prompt can be given more names when an execution starts
 * (context_overrides), so this is no fault; but a name that is only misspelt would be empty without a word.
 */
export function unknownNames({ spec }: WrittenManifest): readonly string[] {
  const prompt = namesOf(spec.task.prompt_template).flatMap(([first, second]) => {
    if (first !== 'input') {
      if (ofPrompt.includes(first)) return []
      return `{{${first}}} is empty unless context_overrides of the execution sets it${hint(first, ofPrompt)}`
    }
    const listed = inputNames(spec.input_schema)
    if (second === undefined || listed === undefined || listed.includes(second)) return []
    return `{{input.${second}}} is empty: spec.input_schema has no such property${hint(second, listed)}`
  })
  const { output_handler: handler } = spec
  const field = handler?.type === 'webhook' ? 'body_template' : 'input_template'
  const text = handler?.type === 'webhook' ? handler.bodyTemplate : handler?.type === 'agent' && handler.inputTemplate
  const handled = namesOf(text || undefined).flatMap(([first]) =>
    ofHandler.includes(first) ? [] : `{{${first}}} is empty; available here are ${ofHandler.join(' and ')}`,
  )
  return [
    ...prompt.map((problem) => `spec.task.prompt_template: ${problem}`),
    ...handled.map((problem) => `spec.output_handler.${field}: ${problem}`),
  ].filter((warn, index, all) => all.indexOf(warn) === index)
}

/** Of names that are shown and nowhere asked for, the first two parts. */
function namesOf(text: string | undefined): readonly (readonly [string, string | undefined])[] {
  if (text === undefined) return []
  const { problem, program } = parseTemplate(text)
  if (problem !== null) return []
  const names = namesIn(program)
  const asked = new Set(names.flatMap(({ parts, use }) => (use === 'test' && parts !== null ? parts.join('.') : [])))
  return names.flatMap(({ parts }) => {
    const [first, second] = parts ?? []
    return first === undefined || asked.has(parts!.join('.'))
      ? []
      : [[first.slice(0, 64), second?.slice(0, 64)] as const]
  })
}

function inputNames(schema: unknown): readonly string[] | undefined {
  if (!isFields(schema) || !isFields(schema['properties'])) return undefined
  const { additionalProperties: more } = schema as { additionalProperties?: unknown }
  return more !== undefined && more !== false ? undefined : [...Object.keys(schema['properties']), 'attachments']
}

function hint(name: string, known: readonly string[]): string {
  const near = nearestName(name, known)
  return near === undefined ? '' : `; did you mean ${near}?`
}
