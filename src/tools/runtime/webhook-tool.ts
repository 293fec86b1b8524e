import { z } from 'zod'
import type { WebhookDelivery } from '../../contract/tool-invoker.ts'
import { WEBHOOK_TOOL } from '../../contract/tool-policies.ts'
import type { CatalogTool } from './catalog.ts'
import type { ToolDeclaration } from './define-tool.ts'
import type { ListedTool } from './tool-host.ts'

const input = z.strictObject({ url: z.string(), method: z.string(), body: z.string() })
const parameters = new Set(Object.keys(input.shape))
const title = 'Deliver the output of a run to a webhook'
const listed: ListedTool = {
  name: WEBHOOK_TOOL,
  title,
  description: 'Sends the output of a run to the address in its manifest. Only runs do this; policies can name it.',
  inputSchema: z.toJSONSchema(input) as ListedTool['inputSchema'],
  annotations: { title, readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
}

/**
 * A run sends its output to an address of its manifest: judged and recorded as a call, because the output may be what an instruction in
 * untrusted data asked for. If the run goes on with what the address answered, that answer is untrusted like a page of the web.
 */
export const webhookTool = ({ send, isRead }: WebhookDelivery): CatalogTool =>
  toolOf(isRead, async () => ({ content: [{ type: 'text', text: await send() }] }))

/** As policies see it. */
export const webhookPolicyTool = toolOf(true, async () => ({ content: [] }))

function toolOf(isRead: boolean, run: () => Promise<{ content: object[] }>): CatalogTool {
  const definition: ToolDeclaration = {
    name: WEBHOOK_TOOL,
    toolset: 'executions',
    title,
    description: listed.description,
    permission: null,
    tier: 'user',
    effect: 'external',
    idempotent: false,
    rate: 'exec',
    skipJudge: false,
    raw: true,
    trust: { sends: true, ...(isRead && { source: 'untrusted' }) },
  }
  return {
    name: WEBHOOK_TOOL,
    safeName: WEBHOOK_TOOL,
    definition,
    listed,
    listedSafe: listed,
    parameters,
    required: [...parameters],
    nullable: new Set(),
    load: () => ({ name: WEBHOOK_TOOL, input, run }),
  }
}
