import { type Context, renderTemplate } from '../templating/templates.ts'
import { createMeter } from '../templating/work-meter.ts'
import { knownNames, type Moment, refuseMissing } from './known-names.ts'
import type { Visit } from './run-ports.ts'

/** Renders the texts of one state. All texts of one renderer share a work budget. */
export type StateTexts = (field: string, text: string, context: Context) => string

export function createStateTexts(
  { manifest, position }: Pick<Visit, 'manifest' | 'position'>,
  moment: Moment = 'before',
): StateTexts {
  const meter = createMeter()
  const { state, isStrict } = position
  const known = isStrict ? knownNames(manifest, state, moment) : undefined
  return (field, text, context) => {
    const at = fieldOf(state, field)
    return renderTemplate(text, context, { field: at, meter, missing: known && refuseMissing(known, context, at) })
  }
}

export const fieldOf = (state: string, field: string): string => `spec.states.${state}.${field}`

/** Renders the values of an object, such as `env`. */
export const renderEach = (
  texts: StateTexts,
  field: string,
  group: Readonly<Record<string, string>>,
  context: Context,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(group).map(([name, text]) => [name, texts(`${field}.${name.slice(0, 64)}`, text, context)] as const),
  )
