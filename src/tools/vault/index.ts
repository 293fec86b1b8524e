import type { ToolDefinition } from '../runtime/define-tool.ts'
import vault from './vault.ts'

export const vaultTools: readonly ToolDefinition[] = [vault]
