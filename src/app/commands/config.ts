import { commonFlags, outputFlags } from '../../cli/command.ts'
import { fittedTable } from '../../cli/fitted-table.ts'
import { type LoadedConfig, showConfig } from '../config.ts'
import { configJsonSchema } from '../config-schema.ts'
import { requireKnownTools } from '../require-known-tools.ts'
import { inThisTerminal, unsetVariables } from '../unset-variables.ts'
import { configuredModelRules } from '../wiring/configured-model-rules.ts'
import { requireModels } from '../wiring/open-models.ts'
import { actionCommand } from './action-command.ts'
import { type CommandContext, loadCommandConfig, printJson } from './context.ts'

const flags = {
  host: { type: 'string', value: 'HOST', description: 'As for serve.' },
  port: { type: 'string', value: 'PORT', description: 'As for serve.' },
  tools: { type: 'string', value: 'WHICH', description: 'As for serve.' },
  ...commonFlags,
} as const

export const command = actionCommand({
  name: 'config',
  onlyHere:
    'config reads files and variables of this machine. Run it on the machine of the server, or ask the server with castellan call aegis.system.config --url URL',
  summary: 'Show or check the configuration.',
  description: 'Show or check the configuration. Secrets are never printed.',
  flags: outputFlags,
  actions: {
    show: { summary: 'Print every setting in force and its source.', flags, run: show },
    validate: { summary: 'Check file, environment and flags.', flags, run: validate },
    schema: { summary: 'Print the JSON Schema of the file.', run: schema },
  },
})

async function schema({ terminal }: CommandContext): Promise<number> {
  terminal.out(`${JSON.stringify(configJsonSchema(), null, 2)}\n`)
  return 0
}

async function load(context: CommandContext): Promise<LoadedConfig> {
  const loaded = await loadCommandConfig(context)
  await requireKnownTools(loaded)
  return loaded
}

async function validate(context: CommandContext): Promise<number> {
  const loaded = await load(context)
  requireModels(loaded.config.models)
  configuredModelRules(loaded.config)
  const unset = unsetVariables(loaded.config, context.env).map(inThisTerminal)
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

async function show(context: CommandContext): Promise<number> {
  const loaded = await load(context)
  const rows = showConfig(loaded)
  if (context.json) printJson(context, { file: loaded.file ?? null, settings: rows })
  else {
    const displayed = rows.map((row) => [
      row.field,
      row.value === null ? '-' : JSON.stringify(row.value),
      row.source,
      row.variable,
    ])
    const table = [['SETTING', 'VALUE', 'FROM', 'VARIABLE'], ...displayed]
    const { width } = context.terminal
    // One long value would pad all lines to its length.
    const lines = width === undefined ? table.map((row) => `${row.join('  ')}\n`).join('') : undefined
    context.terminal.out(lines ?? fittedTable(table, { width, yields: 1 }))
  }
  return 0
}
