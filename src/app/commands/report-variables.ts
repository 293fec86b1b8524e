import { hasOtherVariable } from '../plain-settings.ts'
import { createStderrLogger } from '../stderr-logger.ts'
import type { CommandContext } from './context.ts'

/** Says which variables look like a misspelt setting: they change nothing, and the command may use another state than meant. */
export async function reportVariables({ env, terminal }: Pick<CommandContext, 'env' | 'terminal'>): Promise<void> {
  if (!hasOtherVariable(env)) return
  const logger = createStderrLogger('warn', terminal)
  const { unknownVariables } = await import('../config.ts')
  for (const warning of unknownVariables(env)) logger.warn(warning)
}
