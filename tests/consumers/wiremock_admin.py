"""Use a server's admin API through WireMock's own Python client, as its users do, and print the outcome as JSON.

    python wiremock_admin.py http://127.0.0.1:8080

tests/end_to_end/wiremock/client.rs compares what it prints for WireMock and for the bundled target with one and with several processes. Every
request to a stub has a connection of its own, so that several processes each get some.
"""

import json
import sys
import time

import requests
from wiremock.client import (
    DelayDistribution,
    GlobalSetting,
    GlobalSettings,
    HttpMethods,
    Mapping,
    MappingRequest,
    MappingResponse,
    Mappings,
    NearMissMatchPatternRequest,
    NearMissMatchRequest,
    NearMisses,
    Requests,
    Scenarios,
)
from wiremock.constants import Config
from wiremock.exceptions import ApiException

IDS = [f"6f9a3c1e-0000-4000-8000-00000000000{digit}" for digit in range(10)]


class Driver:
    def __init__(self, address):
        self.address = address
        self.outcome = []
        Config.base_url = address + "/__admin"

    def note(self, step, *values):
        self.outcome.append([step, *values])

    def ask(self, path, method="GET", **how):
        """Status, body and matched stub, of as many connections as likely reach all processes; they must agree."""
        answers = set()
        for _ in range(12):
            answer = requests.request(method, self.address + path, headers={"connection": "close"}, timeout=30, **how)
            body = answer.text if "matched-stub-id" in answer.headers else None
            answers.add((answer.status_code, body, answer.headers.get("matched-stub-id")))
        return sorted(map(list, answers), key=str)

    def refused(self, step, call):
        try:
            call()
            self.note(step, "accepted")
        except ApiException as error:
            self.note(step, type(error).__name__)  # the texts differ

    def listed(self):
        mappings = Mappings.retrieve_all_mappings()
        return [mapping.id for mapping in mappings.mappings], mappings.meta.total


def mapping(digit, path, body, **more):
    request = MappingRequest(method=HttpMethods.GET, url=path)
    return Mapping(id=IDS[digit], request=request, response=MappingResponse(status=200, body=body), **more)


def stubs(driver):
    Mappings.create_mapping(mapping(1, "/one", "first", metadata={"team": "a"}))
    driver.note("added", driver.ask("/one"), driver.listed())
    Mappings.create_mapping(mapping(2, "/one", "second", priority=1, metadata={"team": "b"}))
    Mappings.create_mapping(mapping(3, "/three", "third"))
    driver.note("a lower priority wins", driver.ask("/one"), driver.listed())
    one = Mappings.retrieve_mapping(IDS[1])
    driver.note("read", one.request.url, one.response.body, one.metadata)
    driver.refused("an id twice", lambda: Mappings.create_mapping(mapping(1, "/other", "")))
    Mappings.update_mapping(mapping(2, "/two", "changed", priority=1))
    driver.note("changed", driver.ask("/one"), driver.ask("/two"), driver.listed())
    Mappings.delete_mapping(IDS[1])
    driver.note("removed", driver.ask("/one"), driver.listed())
    for name, call in [
        ("change", lambda: Mappings.update_mapping(mapping(1, "/one", ""))),
        ("remove", lambda: Mappings.delete_mapping(IDS[1])),
        ("read", lambda: Mappings.retrieve_mapping(IDS[1])),
    ]:
        driver.refused(f"{name} what is not there", call)
    driver.refused("a field that is not known", lambda: Mappings.create_mapping(Mapping(request=MappingRequest(method="GET", headers={"A": {"equals": "b"}}))))


def metadata(driver):
    Mappings.create_mapping(mapping(4, "/four", "", metadata={"team": "a"}))
    Mappings.create_mapping(mapping(5, "/five", "", metadata={"team": "b"}))
    pattern = {"matchesJsonPath": {"expression": "$.team", "equalTo": "a"}}
    found = requests.post(Config.base_url + "/mappings/find-by-metadata", json=pattern, timeout=30).json()
    driver.note("found by metadata", [stub["id"] for stub in found["mappings"]])
    Mappings.delete_mapping_by_metadata(pattern)
    driver.note("removed by metadata", driver.listed())


def import_stubs(stubs, policy, is_all):
    # WireMock answers 500 unless both options are there.
    options = {"duplicatePolicy": policy, "deleteAllNotInImport": is_all}
    body = {"mappings": [stub.get_json_data() for stub in stubs], "importOptions": options}
    return requests.post(Config.base_url + "/mappings/import", json=body, timeout=30).status_code


def imports(driver):
    several = [mapping(6, "/six", "imported"), mapping(7, "/six", "behind"), mapping(5, "/five", "imported")]
    driver.note("imported", import_stubs(several, "OVERWRITE", False), driver.listed(), driver.ask("/six"), driver.ask("/five"))
    driver.note("imported alone", import_stubs([mapping(6, "/six", "again")], "IGNORE", True), driver.listed(), driver.ask("/six"))


def delays(driver):
    def took(path):
        begun = time.monotonic()
        driver.ask(path)
        return (time.monotonic() - begun) / 12

    Mappings.create_mapping(mapping(8, "/slow", ""))
    update(GlobalSetting(fixed_delay=120))
    driver.note("a fixed delay", took("/slow") >= 0.12)
    update({"delayDistribution": {"type": "uniform", "lower": 100, "upper": 110}})
    driver.note("a random delay", took("/slow") >= 0.1)
    settings = requests.get(Config.base_url + "/settings", timeout=30).json()["settings"]
    driver.note("settings", settings.get("fixedDelay"), settings["delayDistribution"])
    update({"fixedDelay": None})
    driver.note("no delay", took("/slow") < 0.1)
    own = mapping(9, "/own", "")
    own.response.delay_distribution = DelayDistribution(distribution_type="uniform", lower=100, upper=105)
    Mappings.create_mapping(own)
    driver.note("a stub's own delay", took("/own") >= 0.1)


def update(settings):
    try:
        GlobalSettings.update_global_settings(settings)
    except requests.exceptions.JSONDecodeError:
        pass  # WireMock 3 answers without a body, which version 2.6 of the client does not expect


def forget():
    # The client's own call is of a route that WireMock 3 does not have.
    assert requests.delete(Config.base_url + "/requests", timeout=30).status_code == 200


def journal(driver):
    forget()
    Mappings.create_mapping(mapping(1, "/one", "first"))
    for path in ["/one?x=1", "/onr", "/far/away"]:
        requests.get(driver.address + path, headers={"x-test": "a"}, timeout=30)
    requests.post(driver.address + "/one", data="posted", timeout=30)
    everything = Requests.get_all_received_requests(parameters={})
    driver.note("received", [[event.request.method, event.request.url, event.request.body] for event in everything.requests], everything.meta.total)
    raw = requests.get(Config.base_url + "/requests", timeout=30).json()["requests"]
    driver.note("matched", [event["wasMatched"] for event in raw], [event["response"]["status"] for event in raw], {type(event["request"]["loggedDate"]).__name__ for event in raw} == {"int"})
    newest = raw[0]
    driver.note("by id", Requests.get_request(newest["id"]).request.url)
    driver.note("limited", len(Requests.get_all_received_requests(limit=2, parameters={}).requests))
    driver.note("since", len(Requests.get_all_received_requests(since="2100-01-01T00:00:00Z", parameters={}).requests))
    pattern = NearMissMatchPatternRequest(method="GET", url_pattern="/on.*", headers={"X-Test": {"equalTo": "a"}})
    driver.note("counted", Requests.get_matching_request_count(pattern).count)
    driver.note("found", [request.url for request in Requests.get_matching_requests(pattern).requests])
    driver.note("unmatched", sorted(request.url for request in Requests.get_unmatched_requests().requests))
    forget()
    driver.note("forgotten", Requests.get_all_received_requests(parameters={}).meta.total)


def near_misses(driver):
    exact = mapping(1, "/exact", "")
    exact.request.headers = {"X-A": {"equalTo": "abcd"}, "X-B": {"contains": "z"}}
    exact.request.query_parameters = {"q": {"equalTo": "12"}}
    exact.request.url, exact.request.url_path = None, "/exact"
    ok = MappingResponse(status=200)
    others = [
        Mapping(id=IDS[2], request=MappingRequest(method="POST", url="/example"), response=ok),
        Mapping(id=IDS[3], request=MappingRequest(method="ANY", url_path_pattern="/x.*"), response=ok),
        Mapping(id=IDS[4], request=MappingRequest(method="ANY", url_path="/exact", body_patterns=[{"contains": "b"}]), response=ok),
    ]
    # No deletion of all: with it WireMock removes the files as well.
    import_stubs([exact, *others], "OVERWRITE", True)

    def shown(result):
        return [[miss.request.url, round(miss.match_result.distance, 6)] for miss in result.near_misses]

    for request in [
        NearMissMatchRequest(url="/exact?q=1", method="GET", headers={"X-A": "abce"}, body_as_base64=""),
        NearMissMatchRequest(url="/exact?q=12", method="GET", headers={"X-A": "abcd", "X-B": "xyz"}, body_as_base64="YQ=="),
        NearMissMatchRequest(url="/examples", method="GET", body_as_base64=""),
    ]:
        driver.note("near misses of a request", shown(NearMisses.find_nearest_misses_by_request(request)))
    for path in ["/exact?q=1", "/examples", "/y"]:
        requests.get(driver.address + path, timeout=30)
    raw = requests.get(Config.base_url + "/requests/unmatched/near-misses", timeout=30).json()["nearMisses"]
    driver.note("of requests unmatched", sorted([miss["request"]["url"], miss["stubMapping"]["id"], round(miss["matchResult"]["distance"], 6)] for miss in raw))
    driver.note("the same by the client", sorted(shown(Requests.get_unmatched_requests_near_misses())))
    pattern = NearMissMatchPatternRequest(url="/example", method="GET")
    driver.note("near misses of a pattern", shown(NearMisses.find_nearest_misses_by_request_pattern(pattern)))


def reset(driver):
    step = {"scenario_name": "door", "required_scenario_state": "Started", "new_scenario_state": "open"}
    Mappings.create_mapping(mapping(5, "/door", "shut", **step))
    driver.note("a scenario", driver.ask("/door"))
    Scenarios.reset_all_scenarios()
    driver.note("a scenario again", driver.ask("/door"))
    Mappings.reset_mappings()
    driver.note("reset", driver.listed(), driver.ask("/loaded"), driver.ask("/door"))
    Mappings.create_mapping(mapping(6, "/kept", "kept"))
    Mappings.persist_mappings()
    Mappings.create_mapping(mapping(7, "/lost", "lost"))
    Mappings.reset_mappings()
    driver.note("reset to what was saved", sorted(driver.listed()[0]), driver.ask("/kept"), driver.ask("/lost"))
    Mappings.delete_all_mappings()
    driver.note("nothing", driver.listed())


def main():
    driver = Driver(sys.argv[1])
    driver.note("loaded", driver.listed()[1], driver.ask("/loaded"))
    for part in [stubs, metadata, imports, delays, journal, near_misses, reset]:
        part(driver)
    print(json.dumps(driver.outcome, indent=1))


if __name__ == "__main__":
    main()
