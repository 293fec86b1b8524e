/** Tools with a documented success status other than 200. */
const documented: Readonly<Record<string, number>> = {
  thought_record: 201,
  audit_session_start: 201,
}

export const successStatus = (toolName: string): number =>
  Object.hasOwn(documented, toolName) ? documented[toolName]! : 200
