import { configFields, configJsonSchema } from '../../src/app/config-schema.ts'
import { variableForm } from '../../src/app/config-short-forms.ts'
import { fieldRows, type Schema } from '../../src/cli/schema-fields.ts'
import { code, page, table } from './markdown.ts'

/** A variable has no objects. */
const inVariable = (path: string): string => {
  const form = variableForm(path)
  return form === undefined ? '' : ` In the variable, write ${form}.`
}

export function configPage(): string {
  const rows = new Map(fieldRows(configJsonSchema() as Schema, code).map((row) => [row.path, row]))
  return page(
    '# Configuration',
    'Nothing has to be configured. A value comes from a flag, else from its environment variable, else from the configuration file (YAML; [JSON Schema](config.schema.json)), else it is the default. `castellan config validate` checks a file, `castellan config show` prints what holds.',
    'A field marked *secret* is never printed; write `env:NAME` to take it from an environment variable of your choice.',
    table(
      ['field', 'variable', 'type', 'default', 'limits', 'meaning'],
      configFields().map((field) => {
        const row = rows.get(field.path)
        if (row === undefined) throw new Error(`the JSON Schema of the configuration lacks ${field.path}`)
        return [
          code(field.path),
          code(field.variable),
          row.type,
          field.default === undefined ? '' : code(JSON.stringify(field.default)),
          row.limits,
          `${field.description}${inVariable(field.path)}${field.secret ? ' *Secret.*' : ''}`,
        ]
      }),
    ),
  )
}
