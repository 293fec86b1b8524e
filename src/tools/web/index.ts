import type { ToolDefinition } from '../runtime/define-tool.ts'
import webFetch from './web-fetch.ts'
import webSearch from './web-search.ts'

export const webTools: readonly ToolDefinition[] = [webSearch, webFetch]
