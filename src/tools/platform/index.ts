import type { ToolDefinition } from '../runtime/define-tool.ts'
import runtimeList from './aegis-runtime-list.ts'
import schemaGet from './aegis-schema-get.ts'
import schemaValidate from './aegis-schema-validate.ts'
import systemConfig from './aegis-system-config.ts'
import systemInfo from './aegis-system-info.ts'
import toolsList from './aegis-tools-list.ts'
import toolsSearch from './aegis-tools-search.ts'

export const platformTools: readonly ToolDefinition[] = [
  runtimeList,
  schemaGet,
  schemaValidate,
  systemConfig,
  systemInfo,
  toolsList,
  toolsSearch,
]
