-- What wrk sends: a new body each time, of texts with a running number at their ends.
-- Arguments: the file of texts, how many in a request, the first number, and "predict" or "attention".

local texts, count, number, kind, path = {}, 1, 0, "predict", "/predict"
local headers = { ["Content-Type"] = "application/json" }

function init(arguments)
  for line in io.lines(arguments[1]) do
    texts[#texts + 1] = line
  end
  count, number, kind = tonumber(arguments[2]), tonumber(arguments[3]), arguments[4]
  path = "/" .. kind
end

local function numbered()
  number = number + 1
  return texts[number % #texts + 1] .. " " .. string.format("%d", number) .. '"'
end

function request()
  local body
  if kind == "attention" then
    body = '{"sentence":' .. numbered() .. "}"
  else
    local parts = {}
    for place = 1, count do
      parts[place] = numbered()
    end
    body = '{"sentences":[' .. table.concat(parts, ",") .. "]}"
  end
  return wrk.format("POST", path, headers, body)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "bytes": %d, "p50": %.6f, "p99": %.6f, "failed": %d}\n',
    summary.requests, summary.duration / 1e6, summary.bytes,
    latency:percentile(50) / 1e6, latency:percentile(99) / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
