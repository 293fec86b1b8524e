import type { ContentRequest } from '../../contract/upstream-content.ts'
import type { CatalogTool } from './catalog.ts'
import type { LoadedTool } from './define-tool.ts'

/** The tool as which the request is judged and recorded, so that every rule for the tool holds for the request. */
export function contentTool(tool: CatalogTool, { isRead, send }: ContentRequest): CatalogTool {
  const { outputSchema: _, ...listed } = tool.listed
  const { definition } = tool
  const sending = ({ name, input }: LoadedTool): LoadedTool => ({
    ...{ name, input },
    run: (_, { call }) => send((...said) => call.hears!(...said)),
  })
  const { name, safeName, parameters, required, nullable } = tool
  return {
    ...{ name, safeName, parameters, required, nullable, listed, listedSafe: listed },
    definition: isRead ? definition : { ...definition, trust: { sends: true } },
    load() {
      const code = tool.load()
      return code instanceof Promise ? code.then(sending) : sending(code)
    },
  }
}
