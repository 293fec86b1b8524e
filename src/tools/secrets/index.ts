import type { ToolDefinition } from '../runtime/define-tool.ts'
import secretDelete from './secret-delete.ts'
import secretLinkCreate from './secret-link-create.ts'
import secretLinkSubmit from './secret-link-submit.ts'
import secretList from './secret-list.ts'
import secretRotate from './secret-rotate.ts'

export const secretTools: readonly ToolDefinition[] = [
  secretDelete,
  secretLinkCreate,
  secretLinkSubmit,
  secretList,
  secretRotate,
]
