import type { ToolDefinition } from '../runtime/define-tool.ts'
import zaruSwitchMode from './zaru-switch-mode.ts'

export const modeTools: readonly ToolDefinition[] = [zaruSwitchMode]
