import { commonFlags, requirePositional } from '../../cli/command.ts'
import { textTable } from '../../cli/terminal.ts'
import { AppError } from '../../contract/app-error.ts'
import { showConfig } from '../config.ts'
import { configJsonSchema } from '../config-schema.ts'
import { requireKnownTools } from '../require-known-tools.ts'
import { unsetVariables } from '../unset-variables.ts'
import { modelRulesOf } from '../wiring/model-rules-of.ts'
import { requireModels } from '../wiring/open-models.ts'
import { type Command, type CommandContext, loadCommandConfig, printJson } from './context.ts'

const spec = {
  name: 'config',
  onlyHere:
    'config reads files and variables of this machine. Run it on the machine of the server, or ask the server with castellan call aegis.system.config --url URL',
  positionals: 'show|validate|schema',
  positionalsMax: 1,
  summary: 'Show or check the configuration.',
  description:
    'show: print every setting in force and its source. validate: check file, environment and flags. schema: the JSON Schema of the file. Secrets are never printed.',
  flags: {
    host: { type: 'string', value: 'HOST', description: 'As for serve.' },
    port: { type: 'string', value: 'PORT', description: 'As for serve.' },
    tools: { type: 'string', value: 'WHICH', description: 'As for serve.' },
    ...commonFlags,
  },
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const action = requirePositional(context.parsed, 0, 'show|validate|schema', spec)
  if (action === 'schema') {
    context.terminal.out(`${JSON.stringify(configJsonSchema(), null, 2)}\n`)
    return 0
  }
  if (action !== 'show' && action !== 'validate') {
    throw new AppError('ERR_INVALID_INPUT', `Unknown action '${action}'. Use show, validate or schema.`, {
      field: 'action',
    })
  }
  const loaded = await loadCommandConfig(context)
  await requireKnownTools(loaded)
  if (action === 'validate') {
    requireModels(loaded.config.models)
    modelRulesOf(loaded.config)
    const unset = unsetVariables(loaded.config, context.env).map(({ problem }) => problem)
    const warnings = [...loaded.warnings, ...unset]
    if (context.json) printJson(context, { valid: true, file: loaded.file ?? null, warnings })
    else {
      for (const warning of warnings) context.terminal.out(`${warning}\n`)
      context.terminal.out(
        `${loaded.file ?? 'No configuration file; defaults'}: ${context.terminal.style('good', 'valid')}\n`,
      )
    }
    return 0
  }
  const rows = showConfig(loaded)
  if (context.json) printJson(context, { file: loaded.file ?? null, settings: rows })
  else {
    const displayed = rows.map((row) => [
      row.field,
      row.value === null ? '-' : JSON.stringify(row.value),
      row.source,
      row.variable,
    ])
    context.terminal.out(textTable([['SETTING', 'VALUE', 'FROM', 'VARIABLE'], ...displayed]))
  }
  return 0
}
