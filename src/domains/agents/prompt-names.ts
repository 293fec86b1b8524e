import { nearestName } from '../../kernel/nearest-name.ts'
import { isFields } from '../manifests/read-yaml.ts'
import { namesIn } from '../templating/template-names.ts'
import { parseTemplate } from '../templating/templates.ts'
import type { WrittenManifest } from './manifest-schema.ts'

const ofPrompt = ['instruction', 'intent', 'input', 'iteration_number', 'previous_error', 'context']
const ofHandler = ['output', 'intent']

/**
 * Names in the texts of an agent without a value. An execution can pass more names (context_overrides), so this is not an error;
 * but a misspelt name would silently be empty.
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

/** Names that are rendered but not tested anywhere: their first two parts. */
function namesOf(text: string | undefined): readonly (readonly [string, string | undefined])[] {
  if (text === undefined) return []
  const { problem, program } = parseTemplate(text)
  if (problem !== null) return []
  const names = namesIn(program)
  const tested = new Set(names.flatMap(({ parts, use }) => (use === 'test' && parts !== null ? parts.join('.') : [])))
  return names.flatMap(({ parts }) => {
    const [first, second] = parts ?? []
    return first === undefined || tested.has(parts!.join('.'))
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
