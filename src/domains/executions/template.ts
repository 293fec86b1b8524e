import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { type Helper, keysOf, templateHelpers } from '../templating/template-values.ts'
import { type Context, renderTemplate as render } from '../templating/templates.ts'
import type { Meter } from '../templating/work-meter.ts'

/**
 * Renders a template of an agent: see `domains/templating`. An object in `texts` is rendered as that text, and its members stay
 * accessible. Texts that are rendered together share a meter.
 */
export function renderTemplate(
  field: string,
  template: string,
  values: Context,
  { texts, meter }: Readonly<{ texts?: ReadonlyMap<object, string>; meter?: Meter }> = {},
): string {
  if (template.length > limits.promptTemplateCharsMax) {
    throw invalidTemplate(field, `it has more than ${limits.promptTemplateCharsMax} characters`)
  }
  try {
    return render(template, values, {
      field,
      charsMax: limits.promptCharsMax,
      helpers,
      ...(texts && { texts }),
      ...(meter && { meter }),
    })
  } catch (error) {
    if (error instanceof AppError && error.code === 'ERR_TOO_LARGE') {
      throw new AppError('ERR_TEMPLATE_INVALID', error.message, error.details)
    }
    throw error
  }
}

const invalidTemplate = (field: string, reason: string): AppError =>
  new AppError('ERR_TEMPLATE_INVALID', `${field}: the template cannot be used: ${reason}`, { field })

const helpers: ReadonlyMap<string, Helper> = new Map<string, Helper>([
  ...templateHelpers,
  ['keys', ([value], { meter }) => keysOf(value, meter).join(', ')],
])

/** For `texts`: the text of an object, if the value is one. */
export const textOf = (value: Json, text: string): ReadonlyMap<object, string> =>
  typeof value === 'object' && value !== null ? new Map([[value, text]]) : new Map()
