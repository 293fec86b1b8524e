/** The data of one event of a stream. */
export function eventText(event: string): string {
  const lines = event.split(/\r\n|\n|\r/)
  const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice('data:'.length))
  return data.join('\n')
}

/** The JSON of one event of a stream; undefined if it is none. */
export const eventData = (event: string): unknown => parsedData(eventText(event))

/** Undefined if it is not JSON. */
export function parsedData(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
