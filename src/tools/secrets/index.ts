import type { ToolDefinition } from '../runtime/define-tool.ts'
import secretLinkCreate from './secret-link-create.ts'
import secretLinkSubmit from './secret-link-submit.ts'
import secretList from './secret-list.ts'
import secretRotate from './secret-rotate.ts'

export const secretTools: readonly ToolDefinition[] = [secretLinkCreate, secretLinkSubmit, secretList, secretRotate]
